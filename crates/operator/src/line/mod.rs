//! The operator's end of the line: who is connected, what they say, and how they are told what to do. Every replica listens;
//! only the leader listens to what is said.

mod commander;
mod desk;
mod essence;
mod meter;
mod parties;
mod proof;
mod roster;
mod serve;
mod territory;
mod token;

pub use commander::{CommandError, Commander};
pub use roster::{Roster, SidecarFacts};
pub use serve::{Error, LineSettings, bind, serve};
pub use territory::{Ground, Territory};

use link::server::Leadership;
use std::sync::Arc;
use tokio::sync::watch;

/// What the rest of the operator has of the line.
pub struct Line {
    pub roster: Arc<Roster>,
    pub commander: Arc<Commander>,
    pub territory: Arc<Territory>,
}

impl Line {
    pub fn new(leadership: watch::Receiver<Leadership>) -> Self {
        let territory = Arc::new(Territory::default());
        let roster = Arc::new(Roster::new(territory.clone()));
        Self { roster, commander: Arc::new(Commander::new(leadership)), territory }
    }
}

#[cfg(test)]
#[path = "commander_tests.rs"]
mod tests;
