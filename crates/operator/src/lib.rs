//! The operator as a library: `main` runs it with a client of its own, tests with one that fails where they want it to.

pub mod arguments;
pub mod client;
mod cluster;
mod cluster_metrics;
mod commands;
#[cfg(test)]
mod fake_api;
pub mod health;
pub mod identity;
pub mod identity_choice;
pub mod install;
pub mod leader;
pub mod line;
pub mod logging;
pub mod metrics;
mod open_files;
mod plain_lines;
pub mod run;
pub mod runtime;
pub mod serve;
mod shortened;
pub mod stop;
