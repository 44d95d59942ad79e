//! The sidecar's program beside real valkey-server processes of both supported lines.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

mod append_only;
mod configuration;
mod footprint;
mod hand_over;
mod installation;
mod life_cycle;
mod line;
mod line_identity;
mod line_operator;
mod live_settings;
mod modules;
mod pod;
mod probes;
mod workload_api;
