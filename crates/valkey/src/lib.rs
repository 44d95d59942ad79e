//! Talking to one Valkey server: connection, typed admin commands, reply parsers. Used by the sidecar and by tests.
//!
//! Hand-written on purpose. The protocol is three hundred lines; the public client crates bring a multiplexer task, a
//! connection pool and a cluster router that the sidecar's memory budget has no room for, they fold error codes that
//! the probes must tell apart (LOADING, BUSY, MISCONF, MASTERDOWN), and they time out a whole request at best. Here every
//! connect, write and read is under one deadline the caller gives.

pub mod address;
pub mod admin;
pub mod cluster_info;
pub mod connection;
pub mod info;
pub mod refusal;
pub mod reply;
pub mod slots;
#[cfg(feature = "testing")]
pub mod testing;

pub use address::Address;
pub use cluster_info::{ClusterInfo, FailingNodes};
pub use connection::{CallError, Connection};
pub use info::Info;
pub use refusal::{Refusal, RefusalKind};
pub use reply::{ProtocolError, Reply};
pub use slots::{Migration, SlotMigration, SlotOwner, Tries};
