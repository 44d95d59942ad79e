//! Short-term memory of one cluster: what was decided last, and what was looked up.

use super::lookups::Lookups;
use planner::nodes::{Decision, NodeRecord};

#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What was decided last about the nodes.
    pub decided: Option<NodeRecord>,
    /// What was looked up last.
    pub lookups: Lookups,
}

impl Memory {
    /// Takes note of a decision: what it is based on and what it brings is never decided twice.
    pub fn decided(&mut self, decision: &Decision) {
        self.decided = Some(NodeRecord::of(decision));
    }
}
