//! What the data folder tells the guard. IO.

use super::{nodes_conf, stop_note::StopNote};
use crate::configuration::{data_folder::DataFolder, record::Record};
use sidecar_rules::boot::{Data, Past, stopped_in_order};
use std::{fs, path::Path, time::SystemTime};
use topology::NodeId;

#[derive(Clone, Debug)]
pub struct DiskFacts {
    pub past: Past,
    pub data: Data,
    pub snapshot_written: Option<SystemTime>,
    pub clean_stop: bool,
}

impl DiskFacts {
    pub fn read(data_dir: &Path) -> Self {
        let (past, data) = (nodes_conf::read(data_dir), data(data_dir));
        let snapshot_written = written(&data_dir.join("dump.rdb"));
        let asked = past.node().and_then(|node| asked_to_stop(data_dir, &node.id));
        let clean_stop = stopped_in_order(asked, data, snapshot_written);
        Self { past, data, snapshot_written, clean_stop }
    }
}

fn data(data_dir: &Path) -> Data {
    let folder = DataFolder::read(data_dir);
    let journal = folder.append_only_files && !Record::load(data_dir).append_only_replaced;
    match (journal, folder.dump) {
        (true, _) => Data::Journal,
        (false, true) => Data::Snapshot,
        (false, false) => Data::Nothing,
    }
}

fn asked_to_stop(data_dir: &Path, node: &NodeId) -> Option<SystemTime> {
    StopNote::read(data_dir).filter(|note| note.node_id == node.as_str()).map(|note| note.asked())
}

fn written(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|data| data.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "me 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-5460\n";

    #[test]
    fn a_snapshot_written_before_the_stop_is_no_clean_stop_and_one_written_after_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let clean = || DiskFacts::read(folder.path()).clean_stop;
        fs::write(at("nodes.conf"), NODES).unwrap();
        fs::write(at("dump.rdb"), "old").unwrap();
        assert!(!clean(), "nobody asked it to stop");
        let note = StopNote::now("me".into());
        StopNote { asked_unix_milliseconds: note.asked_unix_milliseconds + 60_000, ..note.clone() }
            .write(folder.path())
            .unwrap();
        assert!(!clean());
        StopNote { asked_unix_milliseconds: 1, ..note.clone() }.write(folder.path()).unwrap();
        assert!(clean());
        StopNote { node_id: "other".into(), asked_unix_milliseconds: 1 }.write(folder.path()).unwrap();
        assert!(!clean());
        StopNote::remove(folder.path()).unwrap();
        assert_eq!(StopNote::read(folder.path()), None);
    }

    #[test]
    fn what_would_be_loaded_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let facts = || DiskFacts::read(folder.path());
        assert_eq!((facts().data, facts().past), (Data::Nothing, Past::Unknown));
        fs::write(folder.path().join("dump.rdb"), "x").unwrap();
        assert_eq!(facts().data, Data::Snapshot);
        fs::create_dir(folder.path().join("appendonlydir")).unwrap();
        fs::write(folder.path().join("appendonlydir/appendonly.aof.manifest"), "").unwrap();
        assert_eq!(facts().data, Data::Journal);
    }
}
