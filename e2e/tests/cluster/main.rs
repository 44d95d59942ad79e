//! What a ValkeyCluster promises, on a real Kubernetes with the operator installed by Helm (`e2e/install-operator`).
//! One binary for all files, so that they run side by side and link once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod admission;
mod deletion;
mod drift;
mod fields;
mod forged_status;
mod hot_config;
mod idle;
mod isolation;
mod many_edits;
mod minimal;
mod name_taken;
mod paused;
mod pod_guarantees;
mod probes;
mod production;
mod quota;
mod relabelled;
mod service_monitor;
mod storage;
mod sweep;
mod three_managers;
mod trouble;
mod update_sidecars;
mod users_files;
