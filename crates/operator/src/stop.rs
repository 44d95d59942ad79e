//! The wish to end, from a signal or from losing the Lease, as something every part can wait for.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub struct Stop {
    wish: watch::Receiver<bool>,
}

/// The other end: says it.
#[derive(Debug)]
pub struct Stopper {
    wish: watch::Sender<bool>,
}

pub fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper { wish: sender }, Stop { wish: receiver })
}

impl Stopper {
    pub fn stop(&self) {
        self.wish.send_replace(true);
    }
}

impl Stop {
    /// Returns when the end is wished for, or when nobody is left to wish.
    pub async fn wished(mut self) {
        let _ = self.wish.wait_for(|wish| *wish).await;
    }
}

/// Returns at SIGTERM or SIGINT.
pub async fn signalled() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
        _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
    }
    Ok(())
}
