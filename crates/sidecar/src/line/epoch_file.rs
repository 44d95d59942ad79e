//! The highest leader's term this pod has seen, on the data volume: a restarted sidecar obeys no leader that was replaced
//! before. IO.

use crate::durable_file;
use link::client::EpochMemory;
use serde::{Deserialize, Serialize};
use std::{fs, io, path::PathBuf};

const FILE: &str = "sidecar-epoch.json";

pub struct EpochFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remembered {
    cluster_uid: String,
    epoch: u64,
}

impl EpochFile {
    pub fn new(data_dir: &std::path::Path) -> Self {
        Self { path: data_dir.join(FILE) }
    }
}

impl EpochMemory for EpochFile {
    /// What another cluster's leader said on this volume does not bind this one's.
    fn load(&self, cluster_uid: &str) -> io::Result<u64> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        match serde_json::from_str::<Remembered>(&text) {
            Ok(remembered) if remembered.cluster_uid == cluster_uid => Ok(remembered.epoch),
            Ok(_) => Ok(0),
            Err(error) => {
                // Refusing everybody for ever would be worse: the next leader's word restores the memory.
                tracing::warn!(path = %self.path.display(), %error, "the remembered epoch is damaged; starting anew");
                Ok(0)
            }
        }
    }

    fn store(&self, cluster_uid: &str, epoch: u64) -> io::Result<()> {
        let remembered = Remembered { cluster_uid: cluster_uid.to_owned(), epoch };
        durable_file::write(&self.path, &serde_json::to_string(&remembered)?).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_survives_and_belongs_to_its_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let file = EpochFile::new(folder.path());
        assert_eq!(file.load("one").unwrap(), 0);
        file.store("one", 7).unwrap();
        let again = EpochFile::new(folder.path());
        assert_eq!((again.load("one").unwrap(), again.load("another").unwrap()), (7, 0));
    }

    #[test]
    fn a_damaged_memory_starts_anew_and_an_unreadable_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = EpochFile::new(folder.path());
        fs::write(&file.path, "{\"clusterUid\":\"one\",").unwrap();
        assert_eq!(file.load("one").unwrap(), 0);
        fs::remove_file(&file.path).unwrap();
        fs::create_dir(&file.path).unwrap();
        assert!(file.load("one").is_err() && file.store("one", 1).is_err());
    }
}
