//! The note a node leaves on its volume when it is asked to stop in order, and what it is worth at the next start. IO.

use crate::{
    durable_file::{self, WriteFile},
    volume,
};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::sync::Mutex;

const FILE: &str = "sidecar-stop.json";
/// Longer than a pod's grace period, after which the kubelet kills it.
pub const LONGEST_STOP: Duration = Duration::from_secs(360);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopNote {
    pub node_id: String,
    pub asked_unix_milliseconds: u64,
    /// Valkey went through its own shutdown after that, which writes everything first. One that was killed did not.
    #[serde(default)]
    pub ended: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("could not take away the note of the last stop, without which Valkey must not start")]
pub struct RemoveNote(#[source] io::Error);

impl StopNote {
    pub fn now(node_id: String) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let asked_unix_milliseconds = u64::try_from(now.as_millis()).unwrap_or_default();
        Self { node_id, asked_unix_milliseconds, ended: false }
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
    fn remove_if_outlived(data_dir: &Path) {
        if Self::read(data_dir).is_some_and(|note| note.is_outlived()) {
            tracing::warn!("Valkey was asked to stop and did not; its next end is not taken for a stop in order");
            if let Err(error) = Self::remove(data_dir) {
                tracing::error!(error = link::sentence::of(&error), "its next end may be taken for one");
            }
        }
    }

    fn is_outlived(&self) -> bool {
        self.asked().elapsed().is_ok_and(|age| age > LONGEST_STOP)
    }

    pub fn asked(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.asked_unix_milliseconds)
    }
}

/// The notes of this pod's Valkey, for those who see it being asked to stop and those who see it end. Only the sidecar that saw
/// both says that a stop was one in order.
#[derive(Clone, Debug)]
pub struct StopNotes {
    socket: PathBuf,
    data_dir: PathBuf,
    /// Left and not completed yet.
    left: Arc<Mutex<Option<StopNote>>>,
}

impl StopNotes {
    pub fn new(socket: PathBuf, data_dir: PathBuf) -> Self {
        Self { socket, data_dir, left: Arc::default() }
    }

    /// What is not written within the deadline may be written yet.
    pub async fn leave(&self, node_id: String, deadline: Duration) -> io::Result<()> {
        let (note, folder) = (StopNote::now(node_id), self.data_dir.clone());
        *self.left.lock().await = Some(note.clone());
        volume::work_within(deadline, move || note.write(&folder).map_err(io::Error::other)).await.flatten()
    }

    /// Called when nobody listens on Valkey's socket any more. Valkey takes the socket's file away at the very end of its own
    /// shutdown; it is still there when the process was killed or crashed.
    pub async fn complete(&self) -> io::Result<()> {
        let mut left = self.left.lock().await;
        let Some(note) = left.take() else { return Ok(()) };
        if fs::symlink_metadata(&self.socket).is_ok() {
            tracing::warn!(
                "Valkey was asked to stop and was ended before it had: this is not taken for a stop in order"
            );
            return Ok(());
        }
        let (note, folder) = (StopNote { ended: true, ..note }, self.data_dir.clone());
        // The lock is held meanwhile: who completes it too waits until it is written.
        volume::work(move || note.write(&folder).map_err(io::Error::other)).await.flatten()
    }

    pub async fn withdraw_if_outlived(&self) {
        let folder = self.data_dir.clone();
        if volume::work(move || StopNote::remove_if_outlived(&folder)).await.is_ok() {
            // One that was left since is about a stop that may still come.
            self.left.lock().await.take_if(|note| note.is_outlived());
        }
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

    #[tokio::test]
    async fn a_stop_is_one_in_order_only_for_the_sidecar_that_saw_its_beginning_and_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("valkey.sock");
        let ended = || StopNote::read(folder.path()).unwrap().ended;
        let notes = StopNotes::new(socket.clone(), folder.path().to_owned());
        fs::write(&socket, "").unwrap();
        notes.leave("me".into(), LONGEST_STOP).await.unwrap();
        notes.complete().await.unwrap();
        assert!(!ended(), "the socket is left: it was killed");
        fs::remove_file(&socket).unwrap();
        notes.complete().await.unwrap();
        assert!(!ended(), "what was once no stop in order does not become one");
        notes.leave("me".into(), LONGEST_STOP).await.unwrap();
        StopNotes::new(socket, folder.path().to_owned()).complete().await.unwrap();
        assert!(!ended(), "in another pod there never was a socket");
        notes.complete().await.unwrap();
        assert!(ended());
    }

    #[tokio::test]
    async fn a_newer_stop_is_not_withdrawn_when_the_time_of_an_older_one_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let notes = StopNotes::new(folder.path().join("valkey.sock"), folder.path().to_owned());
        notes.leave("me".into(), LONGEST_STOP).await.unwrap();
        notes.withdraw_if_outlived().await;
        notes.complete().await.unwrap();
        assert!(StopNote::read(folder.path()).unwrap().ended);
    }

    #[tokio::test(start_paused = true)]
    async fn a_volume_that_hangs_while_a_stop_is_noted_holds_the_stop_up_no_longer_than_its_deadline() {
        let (folder, hanging) = (tempfile::tempdir().unwrap(), volume::hang().await);
        let notes = StopNotes::new(folder.path().join("valkey.sock"), folder.path().to_owned());
        assert!(notes.leave("me".into(), Duration::from_secs(2)).await.is_err());
        assert!(!StopNote::is_there(folder.path()));
        drop(hanging);
        notes.complete().await.unwrap();
        assert!(StopNote::read(folder.path()).unwrap().ended, "the end of the stop can still be noted");
    }

    #[test]
    fn the_note_of_an_older_sidecar_says_nothing_of_the_end() {
        let note: StopNote = serde_json::from_str(r#"{"nodeId":"me","askedUnixMilliseconds":1}"#).unwrap();
        assert!(!note.ended);
    }
}
