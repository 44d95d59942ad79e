//! The mark by which a node tells the others that its pod stops, so that none hands over to it: how long it stands, and for which
//! process. Pure; the hand-over sets it, the agent holds it like any other parameter of ours.

use crate::boot::LONGEST_STOP;
use std::time::Duration;
use tokio::time::Instant;

/// In cluster mode Valkey has no use for it. Nobody else may set it: `api::parameters` refuses it to users.
pub const PARAMETER: &str = "replica-priority";
pub const STOPPING: &str = "0";
pub const NOT_STOPPING: &str = "100";
/// A Valkey that runs for longer was not stopped after all.
pub const LONGEST: Duration = LONGEST_STOP.saturating_add(Duration::from_secs(1));

/// The newest stop that was asked for.
#[derive(Clone, Debug, Default)]
pub struct StopMark(Option<Asked>);

#[derive(Clone, Debug)]
struct Asked {
    /// The process that was asked: the one after it is not stopped.
    run_id: String,
    until: Instant,
}

impl StopMark {
    pub fn ask(&mut self, run_id: &str, until: Instant) {
        self.0 = Some(Asked { run_id: run_id.to_owned(), until });
    }

    /// What an earlier sidecar has noted counts less than what this one was asked.
    pub fn ask_unless_asked(&mut self, run_id: &str, until: Instant) {
        if self.0.is_none() {
            self.ask(run_id, until);
        }
    }

    pub fn stands(&self, run_id: &str, now: Instant) -> bool {
        self.0.as_ref().is_some_and(|asked| asked.run_id == run_id && now < asked.until)
    }

    /// The parameter's value for this process.
    pub fn value(&self, run_id: &str, now: Instant) -> &'static str {
        if self.stands(run_id, now) { STOPPING } else { NOT_STOPPING }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_for_the_process_that_was_asked_until_the_newest_stop_is_over() {
        let (mut mark, began) = (StopMark::default(), Instant::now());
        let second = began + Duration::from_secs(100);
        assert_eq!(mark.value("a", began), NOT_STOPPING);
        for asked in [began, second] {
            mark.ask("a", asked + LONGEST);
        }
        assert_eq!(mark.value("a", began + LONGEST), STOPPING, "the time of the first is over");
        assert_eq!(mark.value("b", began), NOT_STOPPING);
        assert_eq!(mark.value("a", second + LONGEST), NOT_STOPPING);
    }
}
