//! The sidecar's end of the line to the operator: what it shows, what it reports, what it remembers. IO; `main` starts
//! `manager` and `watch`. The connection itself is `link::client`.

mod config;
mod disk_room;
mod epoch_file;
pub mod heartbeat;
pub mod manager;
mod mounted_files;
mod near_expiry;
mod node;
pub mod server_state;
mod significant_state;
mod slots_digest;
pub mod status;
pub mod terminating;
pub mod watch;
