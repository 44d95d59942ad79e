//! What one sidecar, one address and all of them together may take. Pure.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Limits {
    /// What fits into the memory that the chart allows the operator, at a third of a MiB for ten.
    pub connections: usize,
    /// Pods behind a node's address translation share one address, so this is above the pods of a node.
    pub connections_per_address: usize,
    /// Few enough that each is done in time even on a busy machine: work on handshakes that time out is lost, and everybody
    /// would come again.
    pub handshakes: usize,
    pub handshakes_per_address: usize,
    pub handshake_time: Duration,
    /// From the handshake to the first admitted call.
    pub first_call_time: Duration,
    pub call_time: Duration,
    /// Without a call for this long a connection is closed; several heartbeats fit in.
    pub idle_time: Duration,
    /// How long calls in flight may take when a connection is closed in order.
    pub drain_time: Duration,
    /// Heartbeats and reports.
    pub message_bytes: usize,
    /// Answers to commands; a full view of a thousand nodes fits.
    pub answer_bytes: usize,
    /// Of a job's stream before it is open; some hundred bytes are enough for a hello.
    pub hello_bytes: usize,
    /// What may wait unread of one call: its window, and all that is taken of a message before the pod is proven. An answer
    /// of a MiB takes some hundred turns of it, a tenth of a second.
    pub window_bytes: u32,
    pub streams_per_connection: u32,
    /// A pod's token and what else a call begins with.
    pub header_bytes: u32,
    /// Calls a connection may make at once, and how many per second it earns back.
    pub calls_burst: u32,
    pub calls_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 12_000,
            connections_per_address: 600,
            handshakes: 1_000,
            handshakes_per_address: 50,
            handshake_time: Duration::from_secs(5),
            first_call_time: Duration::from_secs(10),
            call_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(300),
            drain_time: Duration::from_secs(5),
            message_bytes: 64 * 1024,
            answer_bytes: 1024 * 1024,
            hello_bytes: 8 * 1024,
            window_bytes: 8 * 1024,
            streams_per_connection: 8,
            header_bytes: 8 * 1024,
            calls_burst: 60,
            calls_per_second: 5,
        }
    }
}
