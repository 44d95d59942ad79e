//! The highest leader's term this pod has seen, on the data volume: a restarted sidecar obeys no leader that was replaced
//! before. While the volume cannot be written, the pod's own memory keeps it, which outlives the sidecar's container. IO.

use crate::{durable_file, state::Shared};
use link::client::{EpochMemory, Kept};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const FILE: &str = "sidecar-epoch.json";
/// The fence is asked by the one thread that also answers probes, and a volume that hangs never answers.
const LONGEST_WRITE: Duration = Duration::from_secs(1);

pub struct EpochFile {
    volume: PathBuf,
    memory: PathBuf,
    shared: Shared,
    /// A write to the volume is under way: another is not begun, and could not overtake it.
    writing: Arc<AtomicBool>,
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
        Self { volume: data_dir.join(FILE), memory: run_dir.join(FILE), shared, writing: Arc::default() }
    }

    fn write(&self, text: String) -> io::Result<()> {
        let silent = || io::Error::new(io::ErrorKind::TimedOut, "the data volume does not answer");
        if self.writing.swap(true, Ordering::AcqRel) {
            return Err(silent());
        }
        let (volume, writing, (done, written)) = (self.volume.clone(), self.writing.clone(), mpsc::channel());
        let write = move || {
            let result = durable_file::write(&volume, &text);
            writing.store(false, Ordering::Release);
            let _ = done.send(result);
        };
        if let Err(error) = thread::Builder::new().name("epoch".into()).spawn(write) {
            self.writing.store(false, Ordering::Release);
            return Err(error);
        }
        written.recv_timeout(LONGEST_WRITE).map_err(|_| silent())?.map_err(io::Error::other)
    }

    /// Told in the log when it changes; in /status as long as it is so.
    fn note(&self, problem: Option<String>) {
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
        let Err(error) = self.write(text.clone()) else {
            self.note(None);
            return Ok(Kept::ForGood);
        };
        let problem = link::sentence::of(&error);
        let kept = durable_file::write_if_changed(&self.memory, &text);
        let place = if kept.is_ok() { "kept in the pod's memory until it can be" } else { "kept nowhere" };
        self.note(Some(format!("{problem}; it is {place}")));
        kept.map(|_| Kept::WhileThePodLives).map_err(|_| io::Error::other(problem))
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

    #[test]
    fn an_epoch_survives_and_belongs_to_its_cluster() {
        let folders = folders();
        assert_eq!(folders.file().load("one").unwrap(), 0);
        assert_eq!(folders.file().store("one", 7).unwrap(), Kept::ForGood);
        let again = folders.file();
        assert_eq!((again.load("one").unwrap(), again.load("another").unwrap()), (7, 0));
    }

    #[test]
    fn while_the_volume_is_full_the_pods_memory_keeps_the_epoch_and_status_says_so() {
        let folders = folders();
        folders.file().store("one", 7).unwrap();
        let blocked = folders.fill();
        assert_eq!(folders.file().store("one", 8).unwrap(), Kept::WhileThePodLives);
        assert_eq!(folders.file().load("one").unwrap(), 8, "a restarted sidecar knows it");
        assert!(folders.problem().is_some_and(|problem| problem.ends_with("kept in the pod's memory until it can be")));
        fs::remove_dir(blocked).unwrap();
        assert_eq!(folders.file().store("one", 8).unwrap(), Kept::ForGood);
        assert_eq!(folders.problem(), None);
    }

    #[test]
    fn a_volume_that_hangs_is_waited_for_once() {
        let folders = folders();
        let file = folders.file();
        let hanging = file.volume.with_extension("tmp");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &hanging, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let store = |epoch| {
            let began = std::time::Instant::now();
            assert_eq!(file.store("one", epoch).unwrap(), Kept::WhileThePodLives);
            began.elapsed()
        };
        let (first, second) = (store(8), store(9));
        assert!(second < first, "{second:?} after {first:?}");
        assert_eq!(folders.file().load("one").unwrap(), 9);
        drop(fs::File::open(hanging).unwrap());
    }

    #[test]
    fn what_can_be_kept_nowhere_is_an_error() {
        let folders = folders();
        folders.fill();
        fs::create_dir(folders.run.path().join(FILE)).unwrap();
        assert!(folders.file().store("one", 8).is_err());
        assert!(folders.problem().is_some_and(|problem| problem.ends_with("kept nowhere")));
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
