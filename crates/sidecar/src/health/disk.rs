//! Room on the data volume. IO; a volume that does not answer must not stop the sidecar, so it is asked on another thread.

use std::{path::Path, time::Duration};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

/// The threads for blocking questions also resolve the operator's name: a volume that hangs may hold one of them, not all.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    pub total: u64,
    pub available: u64,
}

/// `None` when the volume cannot be asked or does not answer in time.
pub async fn ask(folder: &Path, deadline: Duration) -> Option<Disk> {
    let folder = folder.to_owned();
    let asked = async {
        let turn = ONE_AT_A_TIME.acquire().await.ok()?;
        let answered = spawn_blocking(move || {
            // Held until there is an answer, whoever still waits for it.
            let _turn = turn;
            rustix::fs::statvfs(&folder).ok()
        });
        answered.await.ok()?
    };
    let room = timeout(deadline, asked).await.ok()??;
    Some(Disk {
        total: room.f_blocks.saturating_mul(room.f_frsize),
        available: room.f_bavail.saturating_mul(room.f_frsize),
    })
}
