//! Which replicas follow this node, kept on its volume: a pod that comes back with its volume and without its data has to know whom to
//! ask, also when others made it forget them. IO.

use crate::{durable_file, volume};
use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tokio::sync::watch;

const FILE: &str = "sidecar-replicas.json";

/// Those that were attached when this node was last seen as a primary.
pub fn read(data_dir: &Path) -> Vec<SocketAddr> {
    let text = fs::read_to_string(data_dir.join(FILE)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// They followed a node that is no more.
pub fn remove(data_dir: &Path) -> io::Result<()> {
    match fs::remove_file(data_dir.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes them down whenever they change. A volume that cannot be written is Valkey's trouble before it is this file's, and told there.
pub async fn keep_attached(data_dir: PathBuf, mut attached: watch::Receiver<Vec<SocketAddr>>) {
    while attached.changed().await.is_ok() {
        let replicas = attached.borrow_and_update().clone();
        if let Err(error) = write(data_dir.clone(), replicas).await {
            tracing::warn!(error = link::sentence::of(&error), "which replicas follow was not written down");
        }
    }
}

async fn write(data_dir: PathBuf, replicas: Vec<SocketAddr>) -> io::Result<()> {
    let text = serde_json::to_string(&replicas)?;
    let written = volume::work(move || durable_file::write_if_changed(&data_dir.join(FILE), &text)).await?;
    written.map(|_| ()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn the_latest_list_is_there_for_the_next_pod() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).is_empty());
        let sender = watch::Sender::new(Vec::new());
        let keeper = tokio::spawn(keep_attached(folder.path().to_owned(), sender.subscribe()));
        for list in [["10.0.0.2:6379"], ["10.0.0.3:6379"]] {
            let list: Vec<SocketAddr> = list.iter().map(|text| text.parse().unwrap()).collect();
            sender.send_replace(list.clone());
            while read(folder.path()) != list {
                yield_now().await;
            }
        }
        drop(sender);
        keeper.await.unwrap();
    }
}
