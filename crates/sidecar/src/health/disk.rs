//! Room on the data volume. IO.

use crate::volume;
use std::{path::Path, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    pub total: u64,
    pub available: u64,
}

/// `None` when the volume cannot be asked or does not answer in time.
pub async fn ask(folder: &Path, deadline: Duration) -> Option<Disk> {
    let folder = folder.to_owned();
    let room = volume::work_within(deadline, move || rustix::fs::statvfs(&folder)).await.ok()?.ok()?;
    Some(Disk {
        total: room.f_blocks.saturating_mul(room.f_frsize),
        available: room.f_bavail.saturating_mul(room.f_frsize),
    })
}
