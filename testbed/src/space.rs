//! Room on disk: refused beforehand where there is too little, named as the cause where it ran out.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::statvfs;

const MEGABYTE: u64 = 1_000_000;
/// With less than this left, programs that write fail in ways that do not say why.
const EXHAUSTED: u64 = 50;

/// Refuses a folder on whose file system there is less room than `megabytes`.
pub fn require(folder: &Path, megabytes: u64) -> Result<()> {
    let free = free_megabytes(folder)?;
    ensure!(
        free >= megabytes,
        "{} has {free} MB free and a testbed needs {megabytes} MB there: make room, or mount a larger disk on it",
        folder.display()
    );
    Ok(())
}

pub fn is_exhausted(folder: &Path) -> bool {
    free_megabytes(folder).is_ok_and(|free| free < EXHAUSTED)
}

fn free_megabytes(folder: &Path) -> Result<u64> {
    let disk = statvfs(folder).with_context(|| format!("cannot ask how full {} is", folder.display()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize) / MEGABYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_refused_with_both_figures() {
        assert!(require(Path::new("/"), 0).is_ok());
        let refusal = require(Path::new("/"), u64::MAX).unwrap_err().to_string();
        assert!(refusal.contains(&u64::MAX.to_string()) && refusal.contains("make room"), "{refusal}");
    }
}
