//! The gate before Valkey in real clusters of three shards, each pod with its sidecar, on both supported lines: who is
//! killed in whatever way never takes the place of a copy with more data.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

mod all_at_once;
mod cluster;
mod elections;
mod gate;
mod hand_over;
#[allow(dead_code, reason = "shared with the other tests of the sidecar's program")]
#[path = "../real/pod.rs"]
mod pod;
mod primary;
mod silent_replica;
mod votes;
