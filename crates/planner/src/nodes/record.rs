//! What is kept in the status: the running orchestration, the queue, the shards as last known. Pure, bounded, durable.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use topology::{NodeId, PodName, PodUid, Role, ShardId, SlotSet};

/// A change of several steps over several nodes. Everything else it needs is read from the nodes at every step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Orchestration {
    /// Unique for the cluster.
    pub id: String,
    /// What it is about.
    pub kind: OrchestrationKind,
    /// What is being done now.
    pub step: Stage,
    /// Grows with every step; sidecars refuse commands of an earlier one.
    pub step_version: u64,
    /// When the orchestration began.
    pub started_at: Timestamp,
    /// When the present step began.
    pub step_started_at: Timestamp,
    /// What the present step waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// How the nodes answered in the present step.
    #[serde(default)]
    pub answers: Answers,
    /// Whether an Event told that it began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announced: bool,
}

/// The latest answer of every node in the present step, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answers {
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Setback>,
}

/// One node's answer that was not the wanted one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Setback {
    /// Which pod.
    pub pod: PodName,
    /// What it was told and what it answered.
    pub message: String,
}

/// What an orchestration is about. The order is the order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OrchestrationKind {
    /// A shard's primary is dead: its best replica takes over.
    Failover,
    /// The nodes become a cluster.
    Form,
    /// The cluster becomes whole again.
    Heal,
    /// The cluster gets as many shards and replicas as are asked for.
    Scale,
}

/// A step of an orchestration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Waiting for pods to be there and to speak.
    AwaitPods,
    /// Reading every node's view.
    ReadViews,
    /// A replica takes over from a dead primary.
    Promote,
    /// Nodes that wait at the boot gate are let start.
    OpenGates,
    /// Primaries get their slots.
    AssignSlots,
    /// Primaries are introduced to each other.
    MeetPrimaries,
    /// All nodes are introduced to each other.
    Meet,
    /// Nodes without a shard become replicas.
    Replicate,
    /// Nodes that no longer exist are forgotten.
    Forget,
    /// Primaries give slots to others.
    MoveSlots,
    /// Primaries whose pods go are succeeded by replicas whose pods stay.
    HandOver,
    /// Nodes whose pods go leave the cluster.
    Leave,
    /// Comparing every node's view.
    Verify,
}

/// An orchestration that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queued {
    /// What it is about.
    pub kind: OrchestrationKind,
    /// When it was first wanted.
    pub since: Timestamp,
    /// Why.
    pub why: String,
}

/// One shard as last known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shard {
    /// Our name for it; stays when the primary changes.
    pub id: ShardId,
    /// Its slots, such as "0-5461".
    pub slots: SlotSet,
    /// Replication history of the primary: tells which replicas hold the same data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_id: Option<String>,
    /// The primary first, then its replicas.
    pub nodes: Vec<ShardNode>,
}

/// One node of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardNode {
    /// The pod it runs in.
    pub pod: PodName,
    /// The UID of that pod: an emptyDir ends with it. None in a record from before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<PodUid>,
    /// What Valkey calls it.
    pub node_id: NodeId,
    /// What it does for the shard.
    pub role: Role,
    /// How it is.
    pub state: NodeState,
}

/// How a node of a shard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// It answers; a replica has all data.
    Online,
    /// A replica that copies its primary's data.
    Syncing,
    /// Its process is not running.
    Down,
    /// Its sidecar is not heard.
    Unknown,
    /// Its pod runs another node now; it waits to be forgotten.
    Lost,
}

impl Shard {
    pub fn primary(&self) -> Option<&ShardNode> {
        self.nodes.iter().find(|node| node.role == Role::Primary && node.state != NodeState::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: &str = r#"{"id":"form-1","kind":"Form","step":"Meet","stepVersion":2,"startedAt":"2026-01-01T00:00:00Z",
        "stepStartedAt":"2026-01-01T00:00:01Z","addedLater":1}"#;

    #[test]
    fn a_record_of_another_version_is_read_and_survives_a_round_trip() {
        let running: Orchestration = serde_json::from_str(RUNNING).unwrap();
        let written = serde_json::to_string(&running).unwrap();
        assert_eq!((running.step_version, running.answers.done), (2, 0));
        assert_eq!(serde_json::from_str::<Orchestration>(&written).unwrap(), running);
    }

    #[test]
    fn a_lost_node_is_nobodys_primary() {
        let text = r#"{"id":"shard-0","slots":"0-9","nodes":[
            {"pod":"p-0","nodeId":"a","role":"primary","state":"lost"},
            {"pod":"p-1","nodeId":"b","role":"primary","state":"online"}]}"#;
        let shard: Shard = serde_json::from_str(text).unwrap();
        assert_eq!(shard.primary().map(|node| node.pod.as_str()), Some("p-1"));
    }
}
