//! What one node says of the whole cluster. Pure data, filled from the sidecar's answers.

use crate::cluster_nodes::SlotMove;
use crate::identity::NodeId;
use crate::slots::SlotSet;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a node does for its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    Primary,
    Replica,
}

/// The short form that comes with every heartbeat. Equal digests mean equal slot ownership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewSummary {
    pub state_ok: bool,
    pub current_epoch: u64,
    pub my_epoch: u64,
    pub known_nodes: u32,
    pub primaries: u32,
    /// Failed or possibly failed.
    pub failing_nodes: u32,
    /// Those of them that most primaries agreed on: a suspicion that is confirmed makes a view out of date.
    pub failed_nodes: u32,
    pub slots_assigned: u32,
    pub slots_mine: u32,
    pub slots_digest: Vec<u8>,
}

/// The long form: every node the speaker knows, itself included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub read_at: Timestamp,
    pub summary: ViewSummary,
    pub nodes: Vec<ViewedNode>,
}

/// One line of CLUSTER NODES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewedNode {
    pub node_id: NodeId,
    pub ip: String,
    pub hostname: Option<String>,
    pub role: Role,
    pub myself: bool,
    /// The cluster agreed that it is down.
    pub failing: bool,
    /// The speaker alone thinks so.
    pub possibly_failing: bool,
    /// It was met and has not yet answered; its id is not to be trusted.
    pub handshake: bool,
    pub link_up: bool,
    pub primary: Option<NodeId>,
    pub config_epoch: u64,
    pub slots: SlotSet,
    /// Only told by the speaker of itself.
    pub moves: Vec<SlotMove>,
}

impl ViewedNode {
    /// The speaker hears from it. A link alone says nothing: Valkey calls one to an address that nobody has any more connected.
    pub fn is_heard(&self) -> bool {
        self.link_up && !self.failing && !self.possibly_failing
    }
}

impl NodeView {
    pub fn myself(&self) -> Option<&ViewedNode> {
        self.nodes.iter().find(|node| node.myself)
    }

    /// The line about a node, unless it is only half met.
    pub fn get(&self, id: &NodeId) -> Option<&ViewedNode> {
        self.nodes.iter().find(|node| node.node_id == *id && !node.handshake)
    }

    /// All other nodes that are fully met.
    pub fn others(&self) -> impl Iterator<Item = &ViewedNode> {
        self.nodes.iter().filter(|node| !node.myself && !node.handshake)
    }
}
