//! What the cluster shall be now, on its way to the spec. Pure; a part of `plan`. The StatefulSet follows the shape and never the
//! spec: a smaller number in the spec must not end pods that hold data.

use crate::claim_facts::ClaimFacts;
use crate::nodes::{NodeFacts, NodeObservation, NodeState, PodObservation, Shard, ShardNode, Valkey};
use crate::observation::Observation;
use crate::pod_facts::PodFacts;
use crate::pods;
use manifests::{Shape, ValidatedCluster};
use topology::{PodName, Role, SlotSet};

/// As the spec says, but for pods that hold something: those stay until their nodes have left the cluster.
pub fn shape(cluster: &ValidatedCluster, observation: &Observation) -> Shape {
    let asked = Shape::of_spec(cluster);
    let live = observation.stateful_set().map(pods::asked_for);
    let needed = needed(observation).max(unread_volumes(observation).min(live.unwrap_or(u32::MAX)));
    Shape { pods: asked.pods.max(needed), ..asked }
}

/// How many shards there are, by what is on record.
pub fn recorded_shards(observation: &Observation) -> Option<u32> {
    observation.nodes.as_ref().and_then(|nodes| shards(&nodes.recorded))
}

/// Shards and replicas of each, by what is on record.
pub fn recorded_layout(observation: &Observation) -> Option<(u32, u32)> {
    let (shards, pods) = (recorded_shards(observation)?, observation.stateful_set().map(pods::asked_for)?);
    let recorded = observation.nodes.as_ref().map(|nodes| nodes.recorded.as_slice()).unwrap_or_default();
    Some((shards, copies(recorded, pods / shards)))
}

/// The same of a record that has all of them.
fn shards(recorded: &[Shard]) -> Option<u32> {
    let slots = recorded.iter().fold(SlotSet::default(), |all, shard| all.union(&shard.slots));
    u32::try_from(recorded.len()).ok().filter(|count| *count > 0 && slots.is_all())
}

/// Replicas that the shards have; one too many for a moment does not count, which more pods than there are would tell.
fn copies(recorded: &[Shard], pods_per_shard: u32) -> u32 {
    let nodes = |shard: &Shard| shard.nodes.iter().filter(|node| node.state != NodeState::Lost).count();
    let largest = recorded.iter().map(nodes).max().and_then(|count| u32::try_from(count).ok()).unwrap_or_default();
    largest.min(pods_per_shard).saturating_sub(1)
}

/// The size below which a pod would end that holds something, or of which that is not known.
fn needed(observation: &Observation) -> u32 {
    let there: Vec<&PodFacts> = observation.pods.iter().filter(|pod| !was_let_go(pod, observation)).collect();
    let existing = there.iter().filter(|pod| holds_something(pod, observation.nodes.as_ref()));
    let existing = existing.filter_map(|pod| PodName::from(pod.name.as_str()).ordinal());
    let is_there = |name: &PodName| there.iter().any(|pod| pod.name == name.as_str());
    let shards = observation.nodes.iter().flat_map(|nodes| &nodes.recorded);
    let recorded = shards.flat_map(|shard| awaited(shard, &is_there)).filter_map(|node| node.pod.ordinal());
    let highest = existing.chain(recorded).max();
    highest.and_then(|ordinal| u32::try_from(ordinal + 1).ok()).unwrap_or_default()
}

/// Nodes whose pods have to be there. A lost one, as when it has left the cluster, keeps its pod until the others have forgotten it. Of a
/// shard of which everything is lost each pod comes back: new nodes in them take its slots.
fn awaited<'s>(shard: &'s Shard, is_there: &impl Fn(&PodName) -> bool) -> impl Iterator<Item = &'s ShardNode> {
    let lost = |node: &ShardNode| node.state == NodeState::Lost;
    let all_lost = shard.nodes.iter().all(lost);
    shard.nodes.iter().filter(move |node| all_lost || !lost(node) || is_there(&node.pod))
}

/// It ends because the StatefulSet leaves it out, which was made smaller when its node held nothing: a larger one would only have it made
/// again. One that somebody deleted comes back, and counts.
fn was_let_go(pod: &PodFacts, observation: &Observation) -> bool {
    let size = observation.stateful_set().map(pods::asked_for).and_then(|size| usize::try_from(size).ok());
    let ordinal = PodName::from(pod.name.as_str()).ordinal();
    pod.terminating && size.zip(ordinal).is_some_and(|(size, ordinal)| ordinal >= size)
}

/// Before there is a record, volumes whose pods are away may hold a cluster: those of an earlier ValkeyCluster of this name too. All of
/// them get a pod when the StatefulSet is made, and keep it from shrinking until their pods were heard. They never make it grow: those
/// of pods that are gone for good stay as well.
fn unread_volumes(observation: &Observation) -> u32 {
    let nodes = observation.nodes.as_ref();
    if nodes.is_some_and(|nodes| !nodes.recorded.is_empty()) {
        return 0;
    }
    let is_empty = |claim: &&ClaimFacts| {
        let mut heard = nodes.into_iter().flat_map(|nodes| &nodes.pods).filter(|pod| pod.connected);
        let node = heard.find(|pod| claim.belongs_to(pod.name.as_str()));
        node.is_some_and(|pod| matches!(&pod.valkey, Valkey::Answers(facts) if is_new(facts)))
    };
    let claims = observation.claims.iter().filter(|claim| !is_empty(claim));
    let highest = claims.filter_map(|claim| PodName::from(claim.name.as_str()).ordinal()).max();
    highest.and_then(|ordinal| u32::try_from(ordinal + 1).ok()).unwrap_or_default()
}

/// A node that was heard and is new holds nothing, and neither does a pod whose containers never started.
fn holds_something(pod: &PodFacts, nodes: Option<&NodeObservation>) -> bool {
    let heard = nodes.and_then(|nodes| nodes.pods.iter().find(|seen| seen.uid.as_str() == pod.uid));
    match heard {
        Some(seen @ PodObservation { valkey: Valkey::Answers(facts), connected: true, .. }) => {
            !seen.is_settled() || !is_new(facts)
        }
        _ => has_started(pod),
    }
}

fn is_new(facts: &NodeFacts) -> bool {
    let alone = facts.summary.known_nodes <= 1 && facts.summary.slots_mine == 0;
    facts.role == Role::Primary && facts.keys == 0 && alone
}

fn has_started(pod: &PodFacts) -> bool {
    pod.running || pod.ip.is_some() || pod.containers.iter().any(|container| container.ready || container.restarts > 0)
}
