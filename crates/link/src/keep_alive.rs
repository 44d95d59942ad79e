//! Socket options of both ends: the kernel notices a vanished peer, at no cost to an idle process. IO.

use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;
use tokio::net::TcpStream;

const QUIET_BEFORE_PROBE: Duration = Duration::from_secs(10);
const BETWEEN_PROBES: Duration = Duration::from_secs(3);
const PROBES: u32 = 3;
/// Sent and not acknowledged for this long: the peer is gone.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);

/// A peer that cannot be set up so is served all the same; the next heartbeat's deadline would notice its loss.
pub fn set(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(QUIET_BEFORE_PROBE).with_interval(BETWEEN_PROBES).with_retries(PROBES);
    let set = socket
        .set_tcp_keepalive(&probes)
        .and_then(|()| socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED)))
        .and_then(|()| socket.set_tcp_nodelay(true));
    if let Err(error) = set {
        tracing::debug!(%error, "socket options were not taken");
    }
}
