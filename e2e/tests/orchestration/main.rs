//! What the operator does with the nodes of a cluster on a real Kubernetes: they become one cluster, and become it again after every
//! fault. After each, every node sees the same whole cluster, `valkey-cli --cluster check` passes, and no acknowledged write is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod all_restarted;
mod by_hand;
mod came_back_empty;
mod dead_address;
mod form;
mod formed;
mod neighbours;
mod never_starts;
mod node_cut;
mod node_stopped;
mod operator_absent;
mod pod_deleted;
mod pod_zero;
mod process_killed;
mod random_faults;
mod reset_primary;
mod scaled;
mod scaled_by_hand;
mod shard_ids;
mod spec_changed;
