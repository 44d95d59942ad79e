//! The highest leader's term this pod has seen, on the data volume: a restarted sidecar obeys no leader that was replaced
//! before. Until it is there the pod's own memory keeps it, which outlives the sidecar's container. IO.

use crate::{durable_file, state::Shared, volume};
use link::client::{EpochMemory, Kept};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;

const FILE: &str = "sidecar-epoch.json";
/// A volume that takes longer is named in /status.
const LONGEST_WRITE: Duration = Duration::from_secs(1);

/// The fence is asked by the one thread that also answers probes: it never waits for the volume. What is on its way there when the
/// fence asks again is kept for good by then.
#[derive(Clone)]
pub struct EpochFile {
    volume: PathBuf,
    memory: PathBuf,
    shared: Shared,
    way: Arc<Mutex<Way>>,
}

/// To the volume.
#[derive(Default)]
struct Way {
    wanted: Option<String>,
    written: Option<String>,
    in_memory: bool,
    /// Another write is not begun, and could not overtake it.
    under_way: bool,
}

impl Way {
    /// What is to be written next; `None` ends the way.
    fn next(&mut self) -> Option<String> {
        self.under_way = self.wanted != self.written;
        self.wanted.clone().filter(|_| self.under_way)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remembered {
    cluster_uid: String,
    epoch: u64,
}

impl EpochFile {
    /// `run_dir` is backed by memory and shared by the containers of the pod.
    pub fn new(data_dir: &Path, run_dir: &Path, shared: Shared) -> Self {
        Self { volume: data_dir.join(FILE), memory: run_dir.join(FILE), shared, way: Arc::default() }
    }

    async fn bring_to_the_volume(self) {
        loop {
            let Some(text) = self.way.lock().next() else { return };
            match self.write(text.clone()).await {
                Ok(()) => {
                    self.way.lock().written = Some(text);
                    self.note(None);
                }
                // It is tried again when the fence asks again.
                Err(error) => {
                    self.way.lock().under_way = false;
                    return self.note(Some(link::sentence::of(&error)));
                }
            }
        }
    }

    async fn write(&self, text: String) -> io::Result<()> {
        let path = self.volume.clone();
        let mut writing = pin!(volume::work(move || durable_file::write(&path, &text).map_err(io::Error::other)));
        if let Ok(written) = timeout(LONGEST_WRITE, &mut writing).await {
            return written.flatten();
        }
        self.note(Some("the data volume does not answer".to_owned()));
        writing.await.flatten()
    }

    /// Told in the log when it changes; in /status as long as it is so.
    fn note(&self, problem: Option<String>) {
        let place = if self.way.lock().in_memory { "kept in the pod's memory until it can be" } else { "kept nowhere" };
        let problem = problem.map(|problem| format!("{problem}; it is {place}"));
        let mut state = self.shared.lock();
        if state.line.epoch_problem != problem {
            match &problem {
                Some(problem) => tracing::warn!(problem, "the leader's epoch is not on the volume"),
                None => tracing::info!("the leader's epoch is on the volume again"),
            }
            state.line.epoch_problem = problem;
        }
    }
}

impl EpochMemory for EpochFile {
    fn load(&self, cluster_uid: &str) -> io::Result<u64> {
        Ok(load(&self.volume, cluster_uid)?.max(load(&self.memory, cluster_uid)?))
    }

    fn store(&self, cluster_uid: &str, epoch: u64) -> io::Result<Kept> {
        let remembered = Remembered { cluster_uid: cluster_uid.to_owned(), epoch };
        let text = serde_json::to_string(&remembered)?;
        let mut way = self.way.lock();
        if way.written.as_ref() == Some(&text) {
            return Ok(Kept::ForGood);
        }
        let kept = durable_file::write_if_changed(&self.memory, &text);
        (way.wanted, way.in_memory) = (Some(text), kept.is_ok());
        if !std::mem::replace(&mut way.under_way, true) {
            tokio::spawn(self.clone().bring_to_the_volume());
        }
        kept.map(|_| Kept::WhileThePodLives).map_err(io::Error::other)
    }
}

/// What another cluster's leader said on this volume does not bind this one's.
fn load(path: &Path, cluster_uid: &str) -> io::Result<u64> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    match serde_json::from_str::<Remembered>(&text) {
        Ok(remembered) if remembered.cluster_uid == cluster_uid => Ok(remembered.epoch),
        Ok(_) => Ok(0),
        Err(error) => {
            // Refusing every leader for ever would be worse: the next leader's epoch restores the file.
            tracing::warn!(path = %path.display(), %error, "the remembered epoch is damaged; starting anew");
            Ok(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    struct Folders {
        data: tempfile::TempDir,
        run: tempfile::TempDir,
        shared: Shared,
    }

    fn folders() -> Folders {
        Folders { data: tempfile::tempdir().unwrap(), run: tempfile::tempdir().unwrap(), shared: Shared::default() }
    }

    impl Folders {
        fn file(&self) -> EpochFile {
            EpochFile::new(self.data.path(), self.run.path(), self.shared.clone())
        }

        /// The temporary file cannot be made: as on a full volume, what is there can still be read.
        fn fill(&self) -> PathBuf {
            let blocked = self.data.path().join(FILE).with_extension("tmp");
            fs::create_dir(&blocked).unwrap();
            blocked
        }

        fn problem(&self) -> Option<String> {
            self.shared.lock().line.epoch_problem.clone()
        }
    }

    /// As the fence does it, until it is kept for good.
    async fn store(file: &EpochFile, epoch: u64) {
        while file.store("one", epoch).unwrap() != Kept::ForGood {
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn wait_for_problem(folders: &Folders, end: &str) {
        while !folders.problem().is_some_and(|problem| problem.ends_with(end)) {
            sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn an_epoch_survives_and_belongs_to_its_cluster() {
        let folders = folders();
        assert_eq!(folders.file().load("one").unwrap(), 0);
        store(&folders.file(), 7).await;
        let again = folders.file();
        assert_eq!((load(&again.volume, "one").unwrap(), again.load("another").unwrap()), (7, 0));
    }

    #[tokio::test]
    async fn while_the_volume_is_full_the_pods_memory_keeps_the_epoch_and_status_says_so() {
        let folders = folders();
        store(&folders.file(), 7).await;
        let (blocked, file) = (folders.fill(), folders.file());
        assert_eq!(file.store("one", 8).unwrap(), Kept::WhileThePodLives);
        wait_for_problem(&folders, "kept in the pod's memory until it can be").await;
        assert_eq!(file.store("one", 8).unwrap(), Kept::WhileThePodLives);
        assert_eq!(folders.file().load("one").unwrap(), 8, "a restarted sidecar knows it");
        fs::remove_dir(blocked).unwrap();
        store(&file, 8).await;
        assert_eq!(folders.problem(), None);
    }

    /// The clock goes on by itself only while the thread has nothing to do: it is not held up.
    #[tokio::test(start_paused = true)]
    async fn a_volume_that_hangs_holds_up_nobody_who_is_given_an_epoch() {
        let (folders, hanging) = (folders(), volume::hang().await);
        let file = folders.file();
        for epoch in [8, 9] {
            assert_eq!(file.store("one", epoch).unwrap(), Kept::WhileThePodLives);
        }
        wait_for_problem(&folders, "kept in the pod's memory until it can be").await;
        assert_eq!((load(&file.volume, "one").unwrap(), folders.file().load("one").unwrap()), (0, 9));
        drop(hanging);
        store(&file, 9).await;
        assert_eq!((load(&file.volume, "one").unwrap(), folders.problem()), (9, None));
    }

    #[tokio::test]
    async fn what_can_be_kept_nowhere_is_an_error() {
        let folders = folders();
        folders.fill();
        fs::create_dir(folders.run.path().join(FILE)).unwrap();
        let file = folders.file();
        assert!(file.store("one", 8).is_err());
        wait_for_problem(&folders, "kept nowhere").await;
        assert!(file.store("one", 8).is_err());
    }

    #[test]
    fn a_damaged_memory_starts_anew_and_an_unreadable_one_is_an_error() {
        let folders = folders();
        let file = folders.file();
        fs::write(&file.volume, "{\"clusterUid\":\"one\",").unwrap();
        assert_eq!(file.load("one").unwrap(), 0);
        fs::remove_file(&file.volume).unwrap();
        fs::create_dir(&file.volume).unwrap();
        assert!(file.load("one").is_err());
    }
}
