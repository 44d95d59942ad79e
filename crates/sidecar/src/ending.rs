//! The end of the sidecar: it goes after Valkey. IO; `main` calls it on SIGTERM.

use std::{path::Path, time::Duration};
use tokio::time::{Instant, sleep};
use valkey::{Address, Connection};

const POLL: Duration = Duration::from_millis(100);

/// Waits until nobody listens on the socket, or the deadline has passed. True when Valkey has gone.
pub async fn wait_for_valkey_to_go(socket: &Path, deadline: Duration) -> bool {
    let until = Instant::now() + deadline;
    let address = Address::Unix(socket.to_owned());
    while Instant::now() < until {
        if matches!(Connection::open(&address, POLL).await, Err(error) if error.nobody_listens()) {
            return true;
        }
        sleep(POLL).await;
    }
    false
}
