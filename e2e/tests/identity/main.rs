//! Identities on a real cluster: who gets which certificate, what becomes of lost, spoilt and due ones, and how one root follows another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod drift;
mod first_issue;
mod leader_moves;
mod leaf_rotation;
mod lost_root;
mod own_root;
mod repair;
mod stored;
mod workload_api;
