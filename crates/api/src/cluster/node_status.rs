//! What the status tells of the Valkey nodes: shards, the orchestration under way, the queue. Pure. Words are strings, so that an
//! older definition takes those of a newer operator; the planner turns them into its own types and back.

use crate::readable;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nodes of a shard in the status: the primary, its replicas, and those that are gone and not forgotten yet.
pub const SHARD_NODES: usize = 64;
const TROUBLES: usize = 16;

/// A change of several steps over several nodes. Everything else it needs is read from the nodes at every step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrchestrationStatus {
    /// Unique for the cluster.
    pub id: String,
    /// What it is about: Failover, Form or Heal.
    pub kind: String,
    /// What is being done now, for example Promote.
    pub step: String,
    /// Grows with every step; sidecars refuse commands of an earlier one.
    pub step_version: u64,
    /// When the orchestration began.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started_at: Timestamp,
    /// When the present step began.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub step_started_at: Timestamp,
    /// What the present step waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// How the nodes answered in the present step.
    #[serde(default)]
    pub answers: AnswersStatus,
    /// Whether an Event told that it began. A failover is told of once it is clear that no hand-over explains it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announced: bool,
}

/// The latest answer of every node in the present step, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswersStatus {
    /// Nodes whose latest command is fulfilled.
    #[serde(default)]
    pub done: u32,
    /// Nodes whose latest command failed and is repeated.
    #[serde(default)]
    pub failed: u32,
    /// Nodes that refused.
    #[serde(default)]
    pub refused: u32,
    /// The first few that did not succeed.
    #[serde(default, deserialize_with = "readable::entries", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = TROUBLES), extend("x-kubernetes-list-type" = "atomic"))]
    pub troubles: Vec<TroubleStatus>,
}

/// One node's answer that was not the wanted one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TroubleStatus {
    /// Which pod.
    pub pod: String,
    /// What it was told and what it answered.
    pub message: String,
}

/// An orchestration that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedStatus {
    /// What it is about: Failover, Form or Heal.
    pub kind: String,
    /// When it was first wanted.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Timestamp,
    /// Why.
    pub why: String,
}

/// One shard as last known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardStatus {
    /// Our name for it; stays when the primary changes.
    pub id: String,
    /// Its slots, such as "0-5461".
    pub slots: String,
    /// Replication history of the primary: tells which replicas hold the same data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_id: Option<String>,
    /// The primary first, then its replicas.
    #[serde(deserialize_with = "readable::entries")]
    #[schemars(length(max = SHARD_NODES), extend("x-kubernetes-list-type" = "atomic"))]
    pub nodes: Vec<ShardNodeStatus>,
}

/// One node of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardNodeStatus {
    /// The pod it runs in.
    pub pod: String,
    /// The UID of that pod: a pod that comes in its place has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// What Valkey calls it.
    pub node_id: String,
    /// What it does for the shard: primary or replica.
    pub role: String,
    /// How it is: online, syncing (a replica that copies its primary's data), down (its process is not running), unknown (its
    /// sidecar is not heard) or lost (its pod runs another node now).
    pub state: String,
}
