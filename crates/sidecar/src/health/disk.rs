//! Room on the data volume. IO; a volume that does not answer must not stop the sidecar, so it is asked on another thread.

use std::{path::Path, time::Duration};
use tokio::{task::spawn_blocking, time::timeout};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    pub total: u64,
    pub available: u64,
}

/// `None` when the volume cannot be asked or does not answer in time.
pub async fn ask(folder: &Path, deadline: Duration) -> Option<Disk> {
    let folder = folder.to_owned();
    let asked = spawn_blocking(move || rustix::fs::statvfs(&folder).ok());
    let room = timeout(deadline, asked).await.ok()?.ok()??;
    Some(Disk {
        total: room.f_blocks.saturating_mul(room.f_frsize),
        available: room.f_bavail.saturating_mul(room.f_frsize),
    })
}
