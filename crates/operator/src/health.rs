//! How this process is doing, as /healthz and /readyz tell. Set by the parts, read by `serve`.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where the process stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    Starting,
    /// Another process leads; this one is ready to take over.
    StandingBy,
    /// Leading, and not yet in the picture: what it waits for.
    Synchronizing(String),
    Working,
}

#[derive(Debug)]
pub struct Health {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Scopes that have not been listed completely.
    unlisted: usize,
}

impl Default for Health {
    fn default() -> Self {
        Self { state: Mutex::new(State { stage: Stage::Starting, unlisted: 0 }) }
    }
}

impl Health {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, stage: Stage) {
        self.state().stage = stage;
    }

    /// From now on this many scopes have to be listed before work begins.
    pub fn synchronize(&self, scopes: usize) {
        *self.state() = State { stage: Stage::Synchronizing("the first lists".to_owned()), unlisted: scopes };
    }

    /// One scope is listed.
    pub fn listed(&self) {
        let mut state = self.state();
        state.unlisted = state.unlisted.saturating_sub(1);
        if state.unlisted == 0 {
            state.stage = Stage::Working;
        }
    }

    /// Ok with a word for people, or why not.
    pub fn ready(&self) -> Result<&'static str, String> {
        match &self.state().stage {
            Stage::Starting => Err("starting".to_owned()),
            Stage::Synchronizing(what) => Err(format!("waiting for {what}")),
            Stage::StandingBy => Ok("standing by"),
            Stage::Working => Ok("working"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_standing_by_or_having_seen_every_scope() {
        let health = Health::default();
        assert!(health.ready().is_err());
        health.set(Stage::StandingBy);
        assert_eq!(health.ready(), Ok("standing by"));
        health.synchronize(2);
        health.listed();
        assert_eq!(health.ready(), Err("waiting for the first lists".to_owned()));
        health.listed();
        assert_eq!(health.ready(), Ok("working"));
    }
}
