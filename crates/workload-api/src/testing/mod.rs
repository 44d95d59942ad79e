//! For tests: a Workload API written from the specification, and trust domains whose authorities know nothing of ours. IO.
// Tests call nothing else here, and stop at the first surprise.
#![allow(clippy::unwrap_used)]

mod agent;
mod domain;

pub use agent::Agent;
pub use domain::Domain;
