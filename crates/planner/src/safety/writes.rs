//! The rules for writes to the API server: whose objects, which pods may end, when a budget may open. Pure.

use super::{certificates, volumes};
use crate::child::{ChildKey, ChildKind};
use crate::nodes::{Action, NodeFacts, NodeObservation, NodeState, PodObservation, Valkey};
use crate::observation::{Observation, Observed};
use crate::pod_facts::PodFacts;
use crate::pods::asked_for;
use crate::step::{Apply, Step};
use api::quantity::Quantity;
use jiff::Timestamp;
use serde_json::Value;
use topology::{NodeId, NodeView, PodName, Role};

pub(super) type Verdict = Result<(), String>;

/// Whether this step keeps the rules, as far as it is a write.
pub fn check_write(step: &Step, observation: &Observation, now: Timestamp) -> Verdict {
    match step {
        Step::Command(_) => Ok(()),
        Step::Apply(apply) => owned(apply, observation).and_then(|()| check_apply(apply, observation)),
        Step::Delete { key, uid } => ours(key, uid, observation).and_then(|()| check_delete(key)),
        Step::Release { key, uid } => {
            ensure(key.kind == ChildKind::StatefulSet, "only a StatefulSet is deleted without what it made")?;
            ours(key, uid, observation)
        }
        Step::Nudge { key, uid, .. } => {
            ensure(key.kind == ChildKind::StatefulSet, "only a StatefulSet has pods to make")?;
            ours(key, uid, observation)
        }
        Step::GrowClaim { claim, uid, storage } => grows(claim, uid, storage, observation),
        Step::PatchClaim { claim, uid, .. } => {
            let seen = observation.claims.iter().any(|seen| seen.name == *claim && seen.uid == *uid);
            ensure(seen, "no such volume claim was seen")
        }
        Step::IssueCertificate { replaces, .. } => certificates::issued(replaces.as_ref(), observation, now),
        Step::WriteRoots { beside } => certificates::with_roots(beside, observation),
        Step::ShowCertificate { manifest, .. } => certificates::shown(manifest, observation),
        Step::PatchPod { pod, uid, .. } => {
            let seen = observation.pods.iter().any(|seen| seen.name == *pod && seen.uid == *uid);
            ensure(seen, "no such pod was seen")
        }
    }
}

pub(super) fn ensure(holds: bool, rule: &str) -> Verdict {
    if holds { Ok(()) } else { Err(rule.to_owned()) }
}

/// What is applied belongs to this cluster and to no other.
fn owned(apply: &Apply, observation: &Observation) -> Verdict {
    let text = |path: &str| apply.manifest.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let cluster = &observation.cluster;
    ensure(text("/metadata/name") == apply.key.name, "the object has another name")?;
    ensure(text("/metadata/namespace") == cluster.namespace, "the object is in another namespace")?;
    ensure(text("/metadata/ownerReferences/0/uid") == cluster.uid, "the object belongs to another cluster")?;
    ensure(
        seen_uid(apply, observation) == apply.uid.as_deref(),
        "another object is there than the one to be written over",
    )
}

/// It is the object that was seen, and this cluster's.
fn ours(key: &ChildKey, uid: &str, observation: &Observation) -> Verdict {
    let live = match observation.children.get(key) {
        Some(Observed::Object(live)) => live,
        _ => return Err("no such object was seen".to_owned()),
    };
    let text = |path: &str| live.pointer(path).and_then(Value::as_str);
    ensure(text("/metadata/uid") == Some(uid), "another object is there")?;
    let mut owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let of_cluster = |owner: &Value| owner["uid"] == observation.cluster.uid.as_str();
    ensure(owners.any(of_cluster), "the object belongs to another cluster")
}

/// UID of what was seen under the name to be written.
fn seen_uid<'a>(apply: &Apply, observation: &'a Observation) -> Option<&'a str> {
    match observation.children.get(&apply.key) {
        Some(Observed::Object(live)) => live.pointer("/metadata/uid").and_then(Value::as_str),
        _ => None,
    }
}

fn check_apply(apply: &Apply, observation: &Observation) -> Verdict {
    match apply.key.kind {
        ChildKind::StatefulSet => keeps_pods(&apply.manifest, observation),
        ChildKind::PodDisruptionBudget => {
            let closed = apply.manifest.pointer("/spec/minAvailable").and_then(Value::as_str) == Some("100%");
            ensure(closed, "nothing allows anybody to evict a pod now")
        }
        _ => Ok(()),
    }
}

fn check_delete(key: &ChildKey) -> Verdict {
    ensure(key.kind != ChildKind::StatefulSet, "its pods would end with it")?;
    ensure(key.kind != ChildKind::PodDisruptionBudget, "without it anybody may evict the pods")
}

fn grows(claim: &str, uid: &str, storage: &str, observation: &Observation) -> Verdict {
    let seen = observation.claims.iter().find(|seen| seen.name == claim && seen.uid == uid);
    let seen = seen.ok_or("no such volume claim was seen")?;
    let sizes = (Quantity::parse(storage), Quantity::parse(&seen.requested));
    ensure(matches!(sizes, (Ok(next), Ok(now)) if next > now), "a volume only grows")
}

/// No pod ends that the size leaves out, unless it is known to hold nothing.
fn keeps_pods(manifest: &Value, observation: &Observation) -> Verdict {
    let size = manifest.pointer("/spec/replicas").and_then(Value::as_u64).ok_or("the size is not said")?;
    let beyond = |ordinal: usize| ordinal as u64 >= size;
    let leaves = |name: &str| PodName::from(name).ordinal().is_some_and(beyond);
    // One that the StatefulSet leaves out already, and that ends, is not ended by this.
    let live = observation.stateful_set().map(asked_for).map(u64::from);
    let outside = |name: &str| PodName::from(name).ordinal().zip(live).is_some_and(|(at, live)| at as u64 >= live);
    let ends = |pod: &PodFacts| pod.terminating && outside(&pod.name);
    let mut existing = observation.pods.iter().filter(|pod| leaves(&pod.name) && !ends(pod));
    existing.try_for_each(|pod| may_end(&pod.name, &pod.uid, pod.ip.is_some(), observation))?;
    let recorded = observation.nodes.iter().flat_map(|nodes| &nodes.recorded).flat_map(|shard| &shard.nodes);
    let mut kept = recorded.filter(|node| node.state != NodeState::Lost && leaves(node.pod.as_str()));
    kept.next().map_or(Ok(()), |node| Err(format!("{} is on record with node {}", node.pod, node.node_id.short())))?;
    keeps_unread_volumes(beyond, observation)
}

fn keeps_unread_volumes(leaves: impl Fn(usize) -> bool, observation: &Observation) -> Verdict {
    let current = observation.stateful_set().map(asked_for).unwrap_or_default();
    let unread = volumes::unread(observation, |ordinal| leaves(ordinal) && ordinal < current as usize);
    unread.map_or(Ok(()), |claim| Err(format!("what volume claim {} holds is not known", claim.name)))
}

/// A pod without an address never ran anything. Any other has to say itself that it holds nothing.
fn may_end(pod: &str, uid: &str, ran: bool, observation: &Observation) -> Verdict {
    let nodes = observation.nodes.as_ref();
    let heard = nodes.and_then(|nodes| Some((nodes, nodes.pods.iter().find(|seen| seen.uid.as_str() == uid)?)));
    match heard.map(|(nodes, seen)| (nodes, &seen.valkey, seen.connected)) {
        _ if !ran => Ok(()),
        _ if heard.is_some_and(|(nodes, seen)| has_command_under_way(seen) || is_being_given_slots(seen, nodes)) => {
            Err(format!("{pod} may have been given slots or a primary"))
        }
        Some((nodes, Valkey::Answers(facts), true)) => {
            holds_nothing(facts, nodes).map_err(|why| format!("{pod} {why}"))
        }
        _ => Err(format!("{pod} was not heard")),
    }
}

/// Something is under way to it, or was, and it has not said since what it is.
fn has_command_under_way(seen: &PodObservation) -> bool {
    let given = |action: &Action| matches!(action, Action::AddSlots(_) | Action::Replicate(_));
    let answered = seen.answer.as_ref().filter(|answer| given(&answer.action));
    let silent_since = |at| seen.view.as_ref().is_none_or(|view| view.read_at < at);
    seen.under_way.iter().any(given) || answered.is_some_and(|answer| silent_since(answer.at))
}

/// Another node was told to give it slots.
fn is_being_given_slots(seen: &PodObservation, nodes: &NodeObservation) -> bool {
    let Valkey::Answers(facts) = &seen.valkey else { return false };
    let to_it = |action: &Action| matches!(action, Action::MigrateSlots(_, target, _) if *target == facts.node_id);
    nodes.pods.iter().flat_map(|pod| &pod.under_way).any(to_it)
}

fn holds_nothing(facts: &NodeFacts, nodes: &NodeObservation) -> Verdict {
    ensure(facts.summary.slots_mine == 0 && !is_given_slots(&facts.node_id, nodes), "owns slots")?;
    ensure(facts.role == Role::Primary || primary_answers(facts, nodes), "may be the last copy of its shard")?;
    ensure(facts.role == Role::Replica || facts.keys == 0, "holds keys that nobody else may have")
}

fn is_given_slots(id: &NodeId, nodes: &NodeObservation) -> bool {
    let views = nodes.pods.iter().filter_map(|pod| pod.view.as_ref());
    views.filter_map(|view: &NodeView| view.get(id)).any(|node| !node.slots.is_empty())
}

fn primary_answers(facts: &NodeFacts, nodes: &NodeObservation) -> bool {
    let is_primary = |pod: &PodObservation| match &pod.valkey {
        Valkey::Answers(other) => {
            pod.connected && Some(&other.node_id) == facts.primary.as_ref() && other.summary.slots_mine > 0
        }
        _ => false,
    };
    nodes.pods.iter().any(is_primary)
}
