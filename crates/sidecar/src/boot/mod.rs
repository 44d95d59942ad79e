//! The gate before Valkey. valkey.conf is a FIFO: a starting Valkey blocks on it until the sidecar writes, so at every start
//! of the process, restarts in place included, it is decided first whether this node may come back as what it was.
//! `sidecar_rules::boot` decides, `BootGuard` gathers the facts and executes, `Gate` is how the other parts speak to it.

mod disk_facts;
mod error_log;
mod fifo;
mod gate;
mod guard;
mod inquiry;
mod leave_note;
mod machine;
mod nodes_conf;
mod replicas_file;
mod set_aside;
mod shard_ids;
pub mod status;
mod stop_note;

pub use error_log::ErrorLog;
pub use fifo::is_gate;
pub use gate::Gate;
pub use guard::{BootGuard, BootPaths};
pub use leave_note::LeaveNote;
pub use machine::boot as machine_boot;
pub use nodes_conf::known_nodes;
pub use replicas_file::{keep_attached, remove as forget_attached};
pub use stop_note::{LONGEST_STOP, StopNote, StopNotes};
