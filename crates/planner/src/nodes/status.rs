//! The record of the nodes as the status holds it, and back. Pure. The words of both are the same, so JSON is the bridge.

use super::decision::Decision;
use super::record::{Orchestration, Queued, Shard};
use api::cluster::{OrchestrationStatus, QueuedStatus, ShardStatus, ValkeyClusterStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What of a status the next plan needs. A word that only a newer operator knows makes that entry unreadable, and no other.
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
            shards: status.shards.iter().filter_map(translated).collect(),
            orchestration: status.orchestration.as_ref().and_then(translated),
            queue: status.queue.iter().filter_map(translated).collect(),
        }
    }
}

pub fn shards(record: &[Shard]) -> Vec<ShardStatus> {
    record.iter().filter_map(translated).collect()
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
