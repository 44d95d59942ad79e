//! Ctrl-C and SIGTERM in the middle of a test run: the tests under way clean up and fail, those not yet begun do not begin.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

pub fn happened() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Resolves at the first signal. Without signal handling it never does, and the process dies of the signal as usual.
pub async fn wait() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    INTERRUPTED.store(true, Ordering::Relaxed);
}
