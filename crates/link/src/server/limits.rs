//! What one sidecar, one pod, one cluster, one address and all of them together may take. Pure.

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
    /// What an address may begin at once, and earns back each second: all that it may have open come twice in a row, and as many
    /// as a full node has look for the leader twice a second. It is below a third of a core.
    pub handshakes_burst_per_address: u32,
    pub handshakes_per_second_per_address: u32,
    /// Of one cluster, by its certificate: a thousand pods, each with a second one while certificates change, and what a broken
    /// network left behind.
    pub connections_per_cluster: usize,
    /// Of them without a proven pod. A thousand pods that come within a second are proven in milliseconds each; a certificate
    /// alone holds no more than these, of some ten KiB each.
    pub unproven_per_cluster: usize,
    /// Of these from one address: a pod with its cluster's certificate leaves room for its neighbours. Pods behind a node's address
    /// translation share them, for the moment that a proof takes.
    pub unproven_per_cluster_and_address: usize,
    /// One for each pod of the largest cluster, and those whose end is not seen yet.
    pub streams_per_cluster: usize,
    /// Read and answered at once, not those that are held. The unproven connections have one each; the others, done within
    /// milliseconds, have as many again.
    pub calls_per_cluster: usize,
    /// The one in use, the next with a new certificate, and one of each whose end is not seen yet.
    pub connections_per_pod: usize,
    /// The one in use, and one whose end is not seen yet.
    pub streams_per_pod: usize,
    /// A heartbeat, a report, a wait and a hello, on two connections.
    pub calls_per_pod: usize,
    /// From the connection to its first byte. A sidecar speaks as soon as it is connected; on a busy machine, or when its first packet
    /// is lost, somewhat later.
    pub first_byte_time: Duration,
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
    /// The same of a pod, over all connections that it has and had: two that make use of all they may.
    pub calls_burst_per_pod: u32,
    pub calls_per_second_per_pod: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 12_000,
            connections_per_address: 600,
            handshakes: 1_000,
            handshakes_per_address: 50,
            handshakes_burst_per_address: 1_200,
            handshakes_per_second_per_address: 300,
            connections_per_cluster: 2_200,
            unproven_per_cluster: 256,
            unproven_per_cluster_and_address: 64,
            streams_per_cluster: 1_200,
            calls_per_cluster: 512,
            connections_per_pod: 4,
            streams_per_pod: 2,
            calls_per_pod: 8,
            first_byte_time: Duration::from_secs(2),
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
            calls_burst_per_pod: 120,
            calls_per_second_per_pod: 10,
        }
    }
}
