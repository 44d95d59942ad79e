//! What the pod's probes, Prometheus and people get to see.

pub mod condition;
pub mod disk;
pub mod http;
mod judge;
pub mod metrics;
pub mod observation;
pub mod routes;
