//! What `decide` returns. Pure data; the operator sends the commands and publishes the rest.

use super::action::PodCommand;
use super::record::{Orchestration, Queued, Shard};
use api::conditions::Reason;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use topology::{PodName, Role};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// To send now: pods in parallel, the commands of one pod in order.
    pub commands: Vec<PodCommand>,
    /// For `status.orchestration`.
    pub orchestration: Option<Orchestration>,
    /// For `status.queue`.
    pub queue: Vec<Queued>,
    /// For `status.shards`.
    pub shards: Vec<Shard>,
    /// For the role labels. A pod that is not in here keeps the label it has.
    pub roles: BTreeMap<PodName, Role>,
    /// Pods whose node can serve now: its cluster is whole, and a replica has all data.
    pub serving: BTreeSet<PodName>,
    pub findings: Vec<NodeFinding>,
    /// For `status.plan`: what happens next and what it waits for, in words.
    pub plan: Vec<String>,
    pub events: Vec<Event>,
    /// When to decide again if nothing happens before.
    pub requeue_after: Option<Duration>,
}

impl Decision {
    /// Orchestration id and step version for the commands' fence. Reading needs no orchestration.
    pub fn fence(&self) -> (&str, u64) {
        self.orchestration.as_ref().map_or(("look", 0), |running| (running.id.as_str(), running.step_version))
    }

    /// Whether a finding is true; Unknown is not.
    pub fn is(&self, kind: FindingKind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind && finding.status == Some(true))
    }
}

/// What is now true of one thing that is always told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFinding {
    pub kind: FindingKind,
    /// None is Unknown.
    pub status: Option<bool>,
    pub reason: Reason,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// Every slot has an owner that serves it.
    SlotsCovered,
    /// Every shard has its replicas, and they have all data.
    ReplicasInSync,
    /// Every node that is wanted was heard and sees the same cluster.
    ViewsAgree,
    /// Something is wrong that needs a change from outside.
    Degraded,
    /// Every slot has a primary that takes writes.
    Available,
}

/// A transition worth an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The orchestration it is about: a second failover is told like the first.
    pub about: String,
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}
