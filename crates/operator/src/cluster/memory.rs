//! Short-term memory of one cluster: what was decided last, and what was looked up.

use super::lookups::Lookups;
use planner::SidecarIdentity;
use planner::nodes::{Decision, NodeRecord};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What was decided last about the nodes.
    pub decided: Option<NodeRecord>,
    /// What was looked up last.
    pub lookups: Lookups,
    /// The identity of the sidecars as it was last checked, and when it is to be checked again.
    identity: Option<(SidecarIdentity, Instant)>,
}

impl Memory {
    /// Takes note of a decision: what it is based on and what it brings is never decided twice.
    pub fn decided(&mut self, decision: &Decision) {
        self.decided = Some(NodeRecord::of(decision));
    }

    /// Takes note of the identity; true when the next pass could not know when to check again.
    pub fn identity_checked(&mut self, identity: SidecarIdentity, again: Duration) -> bool {
        let overdue = self.identity.as_ref().is_none_or(|(_, due)| *due <= Instant::now());
        self.identity = Some((identity, Instant::now() + again));
        overdue
    }

    pub fn identity(&self) -> SidecarIdentity {
        self.identity.as_ref().map_or(SidecarIdentity::Unknown, |(identity, _)| identity.clone())
    }

    /// How long until the identity is to be checked; what is overdue is being done.
    pub fn identity_due(&self) -> Option<Duration> {
        let (_, due) = self.identity.as_ref()?;
        due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}
