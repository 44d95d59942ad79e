//! What an observation means, given what the sidecar knows besides, and the note that a server was seen. Pure but for the note;
//! probes, heartbeats and the watch ask it.

use super::{
    condition::{Condition, Context},
    observation::Observation,
};
use crate::state::Shared;

impl Shared {
    pub fn judge(&self, observed: &Observation) -> Condition {
        let reads_when_down =
            self.settings().borrow().as_ref().is_some_and(|settings| settings.allows_reads_when_down());
        let mut state = self.lock();
        let context = Context {
            seen_valkey: state.seen_valkey,
            settled_run: state.settled_run.as_deref(),
            withheld: state.withheld,
            reads_when_down,
            apply_problem: state.apply_problem.as_deref(),
            held_back: state.boot.as_ref().filter(|boot| boot.waiting).map(|boot| boot.reason.as_str()),
        };
        let condition = Condition::of(observed, &context);
        state.seen_valkey |= condition.kind.is_alive();
        condition
    }
}
