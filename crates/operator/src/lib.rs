//! The operator as a library: `main` runs it with a client of its own, tests with one that fails where they want it to.

mod act;
pub mod arguments;
mod backoff;
mod cache;
pub mod client;
mod conduct;
mod context;
pub mod controller;
mod entry;
pub mod health;
pub mod identity;
pub mod identity_choice;
pub mod install;
pub mod leader;
pub mod line;
pub mod logging;
pub mod metrics;
mod observe;
mod open_files;
mod publish;
mod recent;
mod reconcile;
mod resources;
pub mod run;
pub mod serve;
pub mod stop;
mod watch;
