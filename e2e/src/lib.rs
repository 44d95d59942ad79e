//! What every end-to-end test stands on: a namespace of its own, waits that say why they failed, evidence on failure, faults that
//! heal themselves, the audit log. Tests start from [`Scenario`]; everything else hangs off the [`Test`] it hands to their body.

pub mod audit;
pub mod audit_file;
pub mod cluster;
pub mod collection;
pub mod command;
pub mod describe;
pub mod environment;
pub mod exec;
pub mod fault;
pub mod forward;
mod interruption;
pub mod load;
pub mod lock;
pub mod machine;
pub mod measurement;
pub mod mode;
pub mod namespace;
pub mod node;
pub mod objects;
pub mod operator;
pub mod patience;
pub mod process;
pub mod ready;
pub mod replicas;
pub mod scenario;
pub mod skip;
pub mod sound;
pub mod test;
pub mod testbed;
mod timeline;
pub mod verdict;
pub mod view;
pub mod wait;
pub mod workload;

pub use audit::{AuditEntry, AuditSelection};
pub use audit_file::Audit;
pub use cluster::Cluster;
pub use environment::Environment;
pub use load::ClusterLoad;
pub use scenario::Scenario;
pub use sound::sound;
pub use test::{PATIENCE, Test};
pub use testbed::Testbed;
pub use verdict::{Verdict, WaitError};
pub use wait::{wait_for, wait_for_list, wait_for_object};
