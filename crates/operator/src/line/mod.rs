//! The operator's end of the line: who is connected, what they say, and how they are told what to do. Every replica listens;
//! only the leader listens to what is said.

mod meter;
mod parties;
mod proof;
mod report_log;
mod roster;
mod scopes;
mod serve;
mod service;
mod significant_fields;
mod streams;
mod token;

pub use roster::{Roster, SidecarFacts};
pub use scopes::{Scopes, WatchedScope};
pub use serve::{Error, LineSettings, bind, serve};
pub use streams::{CommandError, CommandStreams};

use link::server::Leadership;
use std::sync::Arc;
use tokio::sync::watch;

/// What the rest of the operator has of the line.
pub struct Line {
    pub roster: Arc<Roster>,
    pub streams: Arc<CommandStreams>,
    pub scopes: Arc<Scopes>,
}

impl Line {
    pub fn new(leadership: watch::Receiver<Leadership>) -> Self {
        let scopes = Arc::new(Scopes::default());
        let roster = Arc::new(Roster::new(scopes.clone()));
        Self { roster, streams: Arc::new(CommandStreams::new(leadership)), scopes }
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
