//! The record of the nodes as the status holds it, and back. Pure. The words of both are the same, so JSON is the bridge.

use super::decision::Decision;
use super::record::{NodeState, Orchestration, Queued, Shard, ShardNode};
use api::cluster::{OrchestrationStatus, QueuedStatus, SHARD_NODES, ShardNodeStatus, ShardStatus, ValkeyClusterStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;
use topology::Role;

/// What of a status the next plan needs. A word that only a newer operator knows makes an orchestration or a place in the queue
/// unreadable, and no other; a shard and its nodes stay on record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRecord {
    pub shards: Vec<Shard>,
    pub orchestration: Option<Orchestration>,
    pub queue: Vec<Queued>,
}

impl NodeRecord {
    pub fn of(decision: &Decision) -> Self {
        let Decision { shards, orchestration, queue, .. } = decision.clone();
        Self { shards, orchestration, queue }
    }

    pub fn read(status: &ValkeyClusterStatus) -> Self {
        Self {
            shards: status.shards.iter().filter_map(shard).collect(),
            orchestration: status.orchestration.as_ref().and_then(translated),
            queue: status.queue.iter().filter_map(translated).collect(),
        }
    }
}

fn shard(stored: &ShardStatus) -> Option<Shard> {
    Some(Shard {
        id: translated(&stored.id)?,
        slots: translated(&stored.slots)?,
        replication_id: stored.replication_id.clone(),
        nodes: stored.nodes.iter().filter_map(node).collect(),
    })
}

/// A node whose role is in a word we do not know is there, and nobody's primary as far as the record goes.
fn node(stored: &ShardNodeStatus) -> Option<ShardNode> {
    Some(ShardNode {
        pod: translated(&stored.pod)?,
        pod_uid: stored.pod_uid.as_deref().map(Into::into),
        node_id: translated(&stored.node_id)?,
        role: translated(&stored.role).unwrap_or(Role::Replica),
        state: translated(&stored.state).unwrap_or(NodeState::Unknown),
    })
}

pub fn shards(record: &[Shard]) -> Vec<ShardStatus> {
    let listed = |shard: &Shard| {
        let mut listed: ShardStatus = translated(shard)?;
        listed.nodes.truncate(SHARD_NODES);
        Some(listed)
    };
    record.iter().filter_map(listed).collect()
}

pub fn orchestration(record: Option<&Orchestration>) -> Option<OrchestrationStatus> {
    record.and_then(translated)
}

pub fn queue(record: &[Queued]) -> Vec<QueuedStatus> {
    record.iter().filter_map(translated).collect()
}

fn translated<From: Serialize, To: DeserializeOwned>(from: &From) -> Option<To> {
    serde_json::to_value(from).and_then(serde_json::from_value).ok()
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
