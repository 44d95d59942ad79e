//! What servers on this data volume have accepted and refused. It lies beside the data, because a value that a server
//! took once is safe to start with and one that was refused would keep Valkey from starting. Pure but for load and save.

use crate::{
    durable_file::{self, WriteFile},
    volume,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, io, path::Path};

pub const FILE: &str = "sidecar-record.json";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// `major.minor` of the server that spoke; another line may judge differently.
    pub line: String,
    pub accepted: BTreeMap<String, Accepted>,
    pub refused: BTreeMap<String, Refused>,
    /// What parameters that we do not know were before they were first set.
    pub originals: BTreeMap<String, String>,
    /// Parameters in effect since the last start only.
    pub started_with: BTreeMap<String, String>,
    /// The append-only files still there are older than dump.rdb.
    pub append_only_replaced: bool,
    /// During which boot of its machine a server last ran here.
    pub machine_boot: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub value: String,
    /// How the server spells it: `KEA` becomes `AKE`.
    pub reported: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub value: String,
    pub reason: String,
}

#[derive(Debug, thiserror::Error)]
pub enum SaveRecord {
    #[error("could not save the record of accepted parameters")]
    Write(#[from] WriteFile),
    #[error("the data volume could not be asked")]
    Ask(#[from] io::Error),
}

impl Record {
    /// A missing or damaged record is an empty one: it only costs setting the parameters once more.
    pub fn load(data_dir: &Path) -> Self {
        let text = fs::read_to_string(data_dir.join(FILE)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub async fn save(&self, data_dir: &Path) -> Result<(), SaveRecord> {
        let (text, file) = (serde_json::to_string(self).unwrap_or_default(), data_dir.join(FILE));
        volume::work(move || durable_file::write_if_changed(&file, &text)).await??;
        Ok(())
    }

    /// Forgets judgements of another version line.
    pub fn judged_by(&mut self, line: &str) {
        if self.line != line {
            self.refused.clear();
            self.originals.clear();
            self.line = line.to_owned();
        }
    }

    pub fn refuses(&self, name: &str, value: &str) -> bool {
        self.refused.get(name).is_some_and(|refused| refused.value == value)
    }

    pub fn accept(&mut self, name: &str, value: &str, reported: &str) {
        self.refused.remove(name);
        let accepted = Accepted { value: value.to_owned(), reported: reported.to_owned() };
        self.accepted.insert(name.to_owned(), accepted);
    }

    pub fn original(&self, name: &str) -> Option<&str> {
        self.originals.get(name).map(String::as_str)
    }

    /// The first one counts: later the server has what was set.
    pub fn keep_original(&mut self, name: &str, value: &str) {
        self.originals.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }

    pub fn forget(&mut self, name: &str) {
        self.accepted.remove(name);
        self.originals.remove(name);
    }

    /// A refusal ends with the wish for that value, unless the server still has something of ours in its place.
    pub fn forget_refusals_but(&mut self, is_wished: impl Fn(&str, &str) -> bool) {
        let accepted = &self.accepted;
        self.refused.retain(|name, refused| accepted.contains_key(name) || is_wished(name, &refused.value));
    }

    pub fn refuse(&mut self, name: &str, value: &str, reason: &str) {
        self.refused.insert(name.to_owned(), Refused { value: value.to_owned(), reason: reason.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_record_survives_and_a_damaged_one_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::default();
        record.accept("notify-keyspace-events", "KEA", "AKE");
        record.save(folder.path()).await.unwrap();
        assert_eq!(Record::load(folder.path()), record);
        fs::write(folder.path().join(FILE), "{\"line\":").unwrap();
        assert_eq!(Record::load(folder.path()), Record::default());
    }

    #[test]
    fn a_refusal_ends_when_nobody_wishes_for_the_value_any_more() {
        let mut record = Record::default();
        record.refuse("maxmemory-policy", "sometimes", "no such policy");
        record.forget_refusals_but(|name, value| (name, value) == ("maxmemory-policy", "sometimes"));
        assert!(record.refuses("maxmemory-policy", "sometimes"));
        record.forget_refusals_but(|_, _| false);
        assert!(record.refused.is_empty());
    }

    #[test]
    fn accepting_a_value_ends_its_refusal_and_another_line_judges_anew() {
        let mut record = Record::default();
        record.judged_by("8.1");
        record.refuse("hz", "bogus", "not a number");
        assert!(record.refuses("hz", "bogus") && !record.refuses("hz", "50"));
        record.accept("hz", "50", "50");
        assert!(!record.refuses("hz", "bogus"));
        record.refuse("hz", "bogus", "not a number");
        record.judged_by("8.1");
        assert!(record.refuses("hz", "bogus"));
        record.judged_by("9.1");
        assert!(!record.refuses("hz", "bogus"));
    }
}
