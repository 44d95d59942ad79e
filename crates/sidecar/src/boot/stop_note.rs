//! The note a node leaves on its volume when it is asked to stop in order, and what it is worth at the next start. IO.

use crate::durable_file::{self, WriteFile};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const FILE: &str = "sidecar-stop.json";
/// Longer than a pod's grace period, after which the kubelet kills it.
pub const LONGEST_STOP: Duration = Duration::from_secs(360);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopNote {
    pub node_id: String,
    pub asked_unix_milliseconds: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("could not take away the note of the last stop, without which Valkey must not start")]
pub struct RemoveNote(#[source] io::Error);

impl StopNote {
    pub fn now(node_id: String) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { node_id, asked_unix_milliseconds: u64::try_from(now.as_millis()).unwrap_or_default() }
    }

    pub fn write(&self, data_dir: &Path) -> Result<(), WriteFile> {
        durable_file::write(&data_dir.join(FILE), &serde_json::to_string(self).unwrap_or_default())
    }

    pub fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(data_dir.join(FILE)).ok()?).ok()
    }

    pub fn is_there(data_dir: &Path) -> bool {
        fs::symlink_metadata(data_dir.join(FILE)).is_ok()
    }

    /// It is about one stop only: it is removed, durably, before the next start.
    pub fn remove(data_dir: &Path) -> Result<(), RemoveNote> {
        let removed = fs::remove_file(data_dir.join(FILE));
        removed.and_then(|()| fs::File::open(data_dir)?.sync_all()).map_err(RemoveNote)
    }

    /// Valkey runs, long after it was asked to stop: the stop was called off, or somebody only tried the hook. What it saves from
    /// now on is not saved by a stop.
    pub fn remove_if_outlived(data_dir: &Path) {
        let outlived = |note: Self| note.asked().elapsed().is_ok_and(|age| age > LONGEST_STOP);
        if Self::read(data_dir).is_some_and(outlived) {
            tracing::warn!("Valkey was asked to stop and did not; its next end is not taken for a stop in order");
            if let Err(error) = Self::remove(data_dir) {
                tracing::error!(error = link::sentence::of(&error), "its next end may be taken for one");
            }
        }
    }

    pub fn asked(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.asked_unix_milliseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_worth_nothing_once_valkey_has_outlived_it() {
        let folder = tempfile::tempdir().unwrap();
        let note = StopNote::now("me".into());
        note.write(folder.path()).unwrap();
        StopNote::remove_if_outlived(folder.path());
        assert_eq!(StopNote::read(folder.path()), Some(note.clone()), "it may be stopping right now");
        let asked_unix_milliseconds = note.asked_unix_milliseconds - 400_000;
        StopNote { asked_unix_milliseconds, ..note }.write(folder.path()).unwrap();
        StopNote::remove_if_outlived(folder.path());
        assert_eq!(StopNote::read(folder.path()), None);
    }
}
