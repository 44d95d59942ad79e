//! What the data folder tells the guard. IO.

use super::{leave_note::LeaveNote, machine, nodes_conf, replicas_file, stop_note::StopNote};
use crate::configuration::{
    data_folder::{self, DataFolder},
    record::Record,
};
use sidecar_rules::boot::{Data, Past, stopped_in_order};
use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};
use topology::NodeId;

/// Linux writes back what is older than 30 seconds, and looks every 5; as much again for a disk that is busy.
const WRITE_BACK: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct DiskFacts {
    pub past: Past,
    pub data: Data,
    /// What was written before that is in it for sure.
    pub complete_until: Option<SystemTime>,
    /// When the append-only file was last written to.
    pub last_write: Option<SystemTime>,
    pub clean_stop: bool,
    /// There is a note of the last stop, whatever it says.
    pub has_note: bool,
    /// It left its cluster, and this is what it had before.
    pub leftovers: bool,
}

impl DiskFacts {
    pub fn read(data_dir: &Path) -> Self {
        let (mut past, data) = (nodes_conf::read(data_dir), data(data_dir));
        past.remember(&replicas_file::read(data_dir));
        let last_write = data_folder::last_write(data_dir).filter(|_| data.is_journal());
        let complete_until = match data {
            Data::Snapshot => written(&data_dir.join("dump.rdb")),
            Data::UnsyncedJournal => last_write.and_then(|at| at.checked_sub(WRITE_BACK)),
            Data::Journal | Data::Nothing => None,
        };
        let asked = past.node().and_then(|node| stopped(data_dir, &node.id));
        let clean_stop = stopped_in_order(asked, data, complete_until);
        let (has_note, leftovers) = (StopNote::is_there(data_dir), LeaveNote::is_about_leftovers(data_dir));
        Self { past, data, complete_until, last_write, clean_stop, has_note, leftovers }
    }
}

fn data(data_dir: &Path) -> Data {
    let (folder, record) = (DataFolder::read(data_dir), Record::load(data_dir));
    match (folder.append_only_files && !record.append_only_replaced, folder.dump) {
        (true, _) if may_lack_its_end(&record) => Data::UnsyncedJournal,
        (true, _) => Data::Journal,
        (false, true) => Data::Snapshot,
        (false, false) => Data::Nothing,
    }
}

/// It was left to the kernel when to write the file to the disk, and the machine has been started again since.
fn may_lack_its_end(record: &Record) -> bool {
    let is = |name: &str, value: &str| record.accepted.get(name).is_some_and(|accepted| accepted.value == value);
    let unsynced = is("appendfsync", "no") || is("no-appendfsync-on-rewrite", "yes");
    unsynced && machine::boot().is_none_or(|boot| record.machine_boot != boot)
}

/// When it was asked to stop, if it then ended in order.
fn stopped(data_dir: &Path, node: &NodeId) -> Option<SystemTime> {
    let note = StopNote::read(data_dir).filter(|note| note.ended && note.node_id == node.as_str());
    note.map(|note| note.asked())
}

fn written(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|data| data.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "me 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-5460\n";

    fn with_journal(folder: &Path) {
        fs::create_dir(folder.join("appendonlydir")).unwrap();
        fs::write(folder.join("appendonlydir/appendonly.aof.manifest"), "").unwrap();
    }

    #[test]
    fn a_snapshot_written_before_the_stop_is_no_clean_stop_and_one_written_after_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let clean = || DiskFacts::read(folder.path()).clean_stop;
        fs::write(at("nodes.conf"), NODES).unwrap();
        fs::write(at("dump.rdb"), "old").unwrap();
        assert!(!clean(), "nobody asked it to stop");
        let note = StopNote { ended: true, ..StopNote::now("me".into()) };
        StopNote { asked_unix_milliseconds: note.asked_unix_milliseconds + 60_000, ..note.clone() }
            .write(folder.path())
            .unwrap();
        assert!(!clean());
        StopNote { asked_unix_milliseconds: 1, ..note.clone() }.write(folder.path()).unwrap();
        assert!(clean());
        StopNote { node_id: "other".into(), asked_unix_milliseconds: 1, ended: true }.write(folder.path()).unwrap();
        assert!(!clean());
        StopNote::remove(folder.path()).unwrap();
        assert_eq!(StopNote::read(folder.path()), None);
    }

    #[test]
    fn a_valkey_that_was_killed_after_it_was_asked_to_stop_did_not_stop_in_order() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("nodes.conf"), NODES).unwrap();
        with_journal(folder.path());
        let note = StopNote::now("me".into());
        note.write(folder.path()).unwrap();
        assert!(!DiskFacts::read(folder.path()).clean_stop);
        StopNote { ended: true, ..note }.write(folder.path()).unwrap();
        assert!(DiskFacts::read(folder.path()).clean_stop);
    }

    #[test]
    fn what_would_be_loaded_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let facts = || DiskFacts::read(folder.path());
        assert_eq!((facts().data, facts().past), (Data::Nothing, Past::Unknown));
        fs::write(folder.path().join("dump.rdb"), "x").unwrap();
        assert_eq!(facts().data, Data::Snapshot);
        with_journal(folder.path());
        assert_eq!(facts().data, Data::Journal);
    }

    #[tokio::test]
    async fn a_journal_that_nobody_synced_may_lack_its_end_after_the_machine_was_started_again() {
        let folder = tempfile::tempdir().unwrap();
        with_journal(folder.path());
        for (parameter, value, loose) in [
            ("appendfsync", "no", true),
            ("appendfsync", "everysec", false),
            ("appendfsync", "always", false),
            ("no-appendfsync-on-rewrite", "yes", true),
            ("no-appendfsync-on-rewrite", "no", false),
        ] {
            for (boot, same) in [(machine::boot().unwrap(), true), ("another".to_owned(), false)] {
                let mut record = Record { machine_boot: boot, ..Default::default() };
                record.accept(parameter, value, value);
                record.save(folder.path()).await.unwrap();
                let facts = DiskFacts::read(folder.path());
                let expected = if loose && !same { Data::UnsyncedJournal } else { Data::Journal };
                assert_eq!(facts.data, expected, "{parameter} {value}, the same boot: {same}");
                let limit = facts.complete_until.map(|until| until + WRITE_BACK);
                assert_eq!(limit, facts.last_write.filter(|_| loose && !same));
            }
        }
    }
}
