//! Who may use the testbed now: tests that break nodes hold it alone, all others share it, over all processes of the machine.
//! A lock ends with its process, so a killed test blocks nobody.

use anyhow::{Context, Result};
use std::{
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    Shared,
    Exclusive,
}

/// Held until dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Waits for the lock as long as it takes; the time is not counted against the test.
pub async fn take(directory: &Path, sharing: Sharing) -> Result<Lock> {
    let directory = directory.to_owned();
    tokio::task::spawn_blocking(move || take_blocking(&directory, sharing))
        .await
        .context("wait for the testbed lock")?
}

pub fn take_blocking(directory: &Path, sharing: Sharing) -> Result<Lock> {
    // Everybody passes the gate; whoever wants to be alone keeps it shut while the others finish, else it would starve.
    let gate = open(directory.join("e2e.gate"))?;
    gate.lock().context("lock the gate")?;
    let file = open(directory.join("e2e.lock"))?;
    match sharing {
        Sharing::Shared => file.lock_shared(),
        Sharing::Exclusive => file.lock(),
    }
    .context("lock the testbed")?;
    Ok(Lock { _file: file })
}

fn open(path: PathBuf) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::PATIENCE;
    use std::{sync::mpsc, thread, time::Duration};

    fn taken_within(directory: &Path, sharing: Sharing, limit: Duration) -> bool {
        let (sender, receiver) = mpsc::channel();
        let directory = directory.to_owned();
        thread::spawn(move || sender.send(take_blocking(&directory, sharing).is_ok()));
        receiver.recv_timeout(limit) == Ok(true)
    }

    #[test]
    fn sharers_do_not_wait_for_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let _first = take_blocking(directory.path(), Sharing::Shared).unwrap();
        assert!(taken_within(directory.path(), Sharing::Shared, PATIENCE));
    }

    #[test]
    fn whoever_breaks_nodes_waits_until_all_others_are_done() {
        let directory = tempfile::tempdir().unwrap();
        let first = take_blocking(directory.path(), Sharing::Shared).unwrap();
        assert!(!taken_within(directory.path(), Sharing::Exclusive, Duration::from_millis(200)));
        drop(first);
        assert!(taken_within(directory.path(), Sharing::Exclusive, PATIENCE));
    }
}
