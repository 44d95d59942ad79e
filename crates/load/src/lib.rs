//! A load generator and checker for Valkey clusters: every write is a new key, every acknowledgement is remembered, at the end
//! everything acknowledged is read back. Tests and benches start a [`Load`] and stop it for its [`Report`]; the program
//! `valkey-load` does the same from the command line.

pub mod client;
pub mod failure;
pub mod gap;
pub mod histogram;
pub mod journal;
pub mod ledger;
pub mod load;
pub mod options;
pub mod redirect;
pub mod refresh;
pub mod report;
pub mod report_text;
pub mod slot;
pub mod slot_map;
#[cfg(feature = "testing")]
pub mod testing;
pub mod verification;
mod worker;
pub mod written;

pub use client::Client;
pub use load::{Load, LoadError, Progress};
pub use options::Options;
pub use report::Report;
