//! How long each test took the last time, so that the longest can begin first. Kept in the target directory; losing it costs minutes.

use crate::outcome::{Outcome, Verdict};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

pub struct Times {
    path: PathBuf,
    seconds: BTreeMap<String, f64>,
}

impl Times {
    pub fn read(path: &Path) -> Self {
        let seconds = fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Self { path: path.to_owned(), seconds }
    }

    /// One that nobody has seen yet may be the longest of all.
    pub fn of(&self, name: &str) -> Duration {
        self.seconds.get(name).and_then(|seconds| Duration::try_from_secs_f64(*seconds).ok()).unwrap_or(Duration::MAX)
    }

    pub fn write(&self, outcomes: &[Outcome]) -> Result<()> {
        let ran = outcomes.iter().filter(|outcome| !matches!(outcome.verdict, Verdict::Skipped(_)));
        let mut seconds = self.seconds.clone();
        seconds.extend(ran.map(|outcome| (outcome.name.clone(), outcome.took.as_secs_f64())));
        let text = serde_json::to_vec_pretty(&seconds).context("write the times as JSON")?;
        fs::write(&self.path, text).with_context(|| format!("write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_there_again_in_the_next_run_and_strangers_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.json");
        let (verdict, took) = (Verdict::Passed, Duration::from_millis(1500));
        let ran = Outcome { name: "a".into(), verdict, took, log: None, evidence: None };
        Times::read(&path).write(&[ran]).unwrap();
        assert_eq!(Times::read(&path).of("a"), Duration::from_millis(1500));
        assert_eq!(Times::read(&path).of("b"), Duration::MAX);
    }
}
