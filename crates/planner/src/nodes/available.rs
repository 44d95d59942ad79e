//! Whether everything is served: every slot has a primary that takes writes. Pure; a finding of its own beside the slots, because a
//! primary can answer and refuse writes.

use super::cluster_model::{ClusterModel, Member};
use super::decision::{Finding, FindingKind};
use super::findings::in_sync;
use super::limits::{cut, listed};
use api::conditions::Reason;

pub(crate) fn available(model: &ClusterModel, slots_covered: &Finding) -> Finding {
    let kind = FindingKind::Available;
    if slots_covered.status != Some(true) {
        return Finding { kind, ..slots_covered.clone() };
    }
    let refusing: Vec<String> = model.owners().iter().filter_map(|owner| refusal(model, owner)).collect();
    match refusing.is_empty() {
        true => {
            let message = "every slot has a primary that takes writes".to_owned();
            Finding { kind, status: Some(true), reason: Reason::Serving, message }
        }
        false => {
            let message = cut(&listed(&refusing));
            Finding { kind, status: Some(false), reason: Reason::WritesRefused, message }
        }
    }
}

/// Why a primary takes no writes.
fn refusal(model: &ClusterModel, owner: &Member) -> Option<String> {
    let (facts, name) = (owner.facts()?, owner.name());
    let (needed, following) = (model.target.min_replicas_to_write, following(model, owner));
    match () {
        () if facts.loading => Some(format!("{name} is loading its data")),
        () if !facts.summary.state_ok => Some(format!("{name} holds the cluster for down")),
        () if !facts.serving => Some(format!("{name} takes no writes: its pod's readiness says why")),
        () if following < needed => {
            Some(format!("{name} takes no writes: {following} replicas follow it, and minReplicasToWrite is {needed}"))
        }
        () => None,
    }
}

fn following(model: &ClusterModel, owner: &Member) -> usize {
    let replicas = owner.id().map(|id| model.replicas_of(id)).unwrap_or_default();
    replicas.iter().filter(|replica| in_sync(replica)).count()
}
