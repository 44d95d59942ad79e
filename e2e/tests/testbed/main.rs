//! The testbed's own behaviour, and the harness's: what every other end-to-end test takes for granted.
//! One binary for all files, so that they run side by side and link once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod audit_log;
mod external;
mod fault_guard;
mod harness;
mod into_pods;
mod load;
mod network_policy;
mod node_cut;
mod node_stop;
mod pod_kill;
mod pod_security;
mod services;
mod tools;
mod volumes;
