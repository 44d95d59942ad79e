//! Work on the data volume, away from the one thread that answers probes and speaks to the operator: a volume that hangs
//! holds up only those who need it. IO.

use std::{io, time::Duration};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

/// The threads for blocking work also resolve the operator's name: a volume that hangs may hold one of them, not all. And what
/// was begun first is done first.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// Waits as long as the volume takes.
pub async fn work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let turn = ONE_AT_A_TIME.acquire().await.map_err(io::Error::other)?;
    let done = spawn_blocking(move || {
        // Held until the work is done, even when its caller has given up.
        let _turn = turn;
        work()
    });
    done.await.map_err(io::Error::other)
}

/// What was begun goes on when its caller has given up.
pub async fn work_within<T: Send + 'static>(
    deadline: Duration,
    task: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let silent = || io::Error::new(io::ErrorKind::TimedOut, "the data volume does not answer");
    timeout(deadline, work(task)).await.unwrap_or_else(|_| Err(silent()))
}

/// As if the volume hung, until it is dropped.
#[cfg(test)]
pub async fn hang() -> impl Drop {
    ONE_AT_A_TIME.acquire().await.unwrap()
}
