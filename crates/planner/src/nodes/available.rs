//! Whether everything is served: every slot has a primary that takes writes. Pure; a finding of its own beside the slots, because a
//! primary can answer and refuse writes.

use super::cluster_model::{ClusterModel, Member};
use super::decision::{FindingKind, NodeFinding};
use super::findings::{in_sync, unheard_in_shard};
use super::limits::{cut, listed};
use api::conditions::Reason;

pub(crate) fn available(model: &ClusterModel, slots_covered: &NodeFinding) -> NodeFinding {
    let kind = FindingKind::Available;
    if slots_covered.status != Some(true) {
        return NodeFinding { kind, ..slots_covered.clone() };
    }
    let owners = model.owners();
    let refusing: Vec<String> = owners.iter().filter_map(|owner| refusal(model, owner)).collect();
    let unheard: Vec<String> = owners.iter().flat_map(|owner| silent_followers(model, owner)).collect();
    let (status, reason, message) = match () {
        () if !refusing.is_empty() => (Some(false), Reason::WritesRefused, listed(&refusing)),
        () if !unheard.is_empty() => (None, Reason::NotHeard, format!("not heard: {}", listed(&unheard))),
        () => (Some(true), Reason::Serving, "every slot has a primary that takes writes".to_owned()),
    };
    NodeFinding { kind, status, reason, message: cut(&message) }
}

/// Why a primary takes no writes.
fn refusal(model: &ClusterModel, owner: &Member) -> Option<String> {
    let (facts, name) = (owner.facts()?, owner.name());
    let (needed, following) = (model.target.min_replicas_to_write, following(model, owner));
    let silent = silent_followers(model, owner).len();
    match () {
        () if facts.loading => Some(format!("{name} is loading its data")),
        () if !facts.summary.state_ok => Some(format!("{name} holds the cluster for down")),
        () if !facts.serving => Some(format!("{name} takes no writes: its pod's readiness says why")),
        () if following + silent < needed => {
            Some(format!("{name} takes no writes: {following} replicas follow it, and minReplicasToWrite is {needed}"))
        }
        () => None,
    }
}

/// Replicas without which it would take no writes, and of which nobody knows whether they follow: their sidecars are silent.
fn silent_followers(model: &ClusterModel, owner: &Member) -> Vec<String> {
    let lacks = following(model, owner) < model.target.min_replicas_to_write;
    let silent = owner.id().filter(|_| lacks).map(|id| unheard_in_shard(model, id)).unwrap_or_default();
    silent.into_iter().map(ToString::to_string).collect()
}

fn following(model: &ClusterModel, owner: &Member) -> usize {
    let replicas = owner.id().map(|id| model.replicas_of(id)).unwrap_or_default();
    replicas.iter().filter(|replica| in_sync(replica)).count()
}
