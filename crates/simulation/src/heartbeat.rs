//! What a sidecar tells the operator of its pod and its Valkey. In memory.

use crate::node::Node;
use crate::pod::{Pod, Process, Waiting};
use crate::sidecar;
use crate::world::World;
use planner::nodes::{Boot, Following, NodeFacts};
use sidecar_rules::boot::PastNode;
use std::time::Duration;
use topology::Role;

pub(crate) struct Heartbeat {
    pub uid: u64,
    pub connected: bool,
    pub facts: Option<NodeFacts>,
}

impl Heartbeat {
    pub fn of(world: &World, pod: &Pod) -> Heartbeat {
        let reached = pod.sidecar && !world.cut.contains(&pod.kubernetes_node);
        let connected = reached && !matches!(pod.process, Process::Broken);
        Heartbeat { uid: pod.uid, connected, facts: pod.node().map(|node| facts(world, node)) }
    }
}

/// Whether a sidecar speaks before its heartbeat is due.
pub(crate) fn differ(before: Option<&NodeFacts>, now: Option<&NodeFacts>) -> bool {
    before.map(matters) != now.map(matters)
}

fn matters(facts: &NodeFacts) -> impl PartialEq + use<'_> {
    (
        &facts.node_id,
        facts.role,
        &facts.primary,
        facts.primary_link_up,
        &facts.summary,
        facts.keys == 0,
        facts.started_at,
    )
}

pub(crate) fn facts(world: &World, node: &Node) -> NodeFacts {
    NodeFacts {
        node_id: node.id.clone(),
        role: node.role,
        loading: node.syncing_until.is_some(),
        serving: node.syncing_until.is_none(),
        replication_offset: node.offset,
        replication_id: Some(node.position().replication_id),
        primary: node.primary.clone(),
        primary_link_up: node.link_up,
        following: following(world, node),
        keys: u64::try_from(node.keys.len()).unwrap_or(u64::MAX),
        started_at: Some(stamp(world, node.started_at)),
        summary: node.summary(),
    }
}

/// A node tells its uptime in whole seconds, so the time of its start is another one at every look.
pub(crate) fn in_whole_seconds(facts: NodeFacts, moment: u64) -> NodeFacts {
    let rest = Duration::from_millis(moment % 1_000);
    NodeFacts { started_at: facts.started_at.and_then(|started| started.checked_add(rest).ok()), ..facts }
}

fn following(world: &World, node: &Node) -> Following {
    match node.link_lost_at {
        _ if node.role == Role::Primary => Following::Unknown,
        _ if node.link_up => Following::Now,
        Some(lost) => Following::Until(stamp(world, lost)),
        None => Following::Never,
    }
}

pub(crate) fn boot(world: &World, pod: &Pod, waiting: &Waiting) -> Boot {
    let past = sidecar::past(pod);
    let was = past.node();
    let known_replicas = was.into_iter().flat_map(PastNode::copies).filter(|peer| !peer.unlisted);
    Boot {
        since: stamp(world, waiting.since),
        reason: waiting.reason.clone(),
        last_node_id: was.map(|was| was.id.clone()),
        last_role: was.map(|was| was.role),
        has_data: pod.disk.data.is_some(),
        clean_stop: false,
        owned_slots: was.is_some_and(|was| !was.slots.is_empty()),
        known_replicas: known_replicas.map(|peer| peer.id.clone()).collect(),
        better_copy: world.better_copy(pod),
        journal: pod.disk.data.is_some(),
    }
}

pub(crate) fn stamp(world: &World, at: u64) -> jiff::Timestamp {
    let back = i64::try_from(world.now.saturating_sub(at)).unwrap_or_default();
    world.timestamp() - jiff::SignedDuration::from_millis(back)
}
