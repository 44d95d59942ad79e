//! What a sidecar can be told to do to its Valkey. Pure data; the operator turns each into the contract's message of the same name.

use std::fmt;
use std::time::Duration;
use topology::{NodeId, PodName, PodUid, Position, SlotSet};

/// One instruction to one node. All are idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell the state of the node.
    Probe,
    /// Tell the whole view of the cluster.
    ReadView,
    Meet(Vec<Peer>),
    AddSlots(SlotSet),
    SetConfigEpoch(u64),
    Replicate(NodeId),
    /// With what it has to have, if its primary was seen to have that and may come back with it.
    Failover(FailoverMode, Option<Position>),
    Forget(Vec<NodeId>),
    /// Give these slots, or the first of them, to that node once so many replicas follow it.
    MigrateSlots(SlotSet, NodeId, usize),
    /// Become a new, empty node that knows nobody.
    Leave,
    OpenGate(Start, String),
}

/// Who is met, and where he is now. The id is what his own sidecar told: whoever else is at the address is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub pod: PodName,
    pub node_id: NodeId,
    pub ip: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverMode {
    /// The primary agrees and nothing is lost.
    Coordinated,
    /// The primary is gone; a majority agrees.
    Force,
    /// Nobody is asked. Never decided here: it is a human's word.
    Takeover,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With its data and nodes.conf.
    AsIs,
    /// As a new empty node.
    Fresh,
}

/// An action and whom it is for. Commands to the same pod are carried out in the order they are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCommand {
    pub pod: PodName,
    pub pod_uid: PodUid,
    pub action: Action,
}

impl fmt::Display for PodCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "telling {} to {}", self.pod, self.action)
    }
}

impl Action {
    /// How long the sidecar may take.
    pub fn deadline(&self) -> Duration {
        match self {
            // Primaries that started a moment ago vote only after some seconds; the sidecar waits for them.
            Action::Failover(..) => Duration::from_secs(12),
            Action::Replicate(_) => Duration::from_secs(5),
            Action::MigrateSlots(..) => Duration::from_secs(30),
            Action::Leave => Duration::from_secs(5),
            _ => Duration::from_secs(2),
        }
    }

    /// Only looks.
    pub fn is_reading(&self) -> bool {
        matches!(self, Action::Probe | Action::ReadView)
    }

    /// Gives the node a part to play: slots, or a primary to follow.
    pub fn is_gift(&self) -> bool {
        matches!(self, Action::AddSlots(_) | Action::SetConfigEpoch(_) | Action::Replicate(_))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Probe => f.write_str("tell your state"),
            Action::ReadView => f.write_str("tell your view"),
            Action::Meet(peers) => write!(f, "meet {}", names(peers)),
            Action::AddSlots(slots) => write!(f, "take slots {slots}"),
            Action::SetConfigEpoch(epoch) => write!(f, "set config epoch {epoch}"),
            Action::Replicate(id) => write!(f, "replicate {}", id.short()),
            Action::Failover(FailoverMode::Coordinated, _) => f.write_str("take over with your primary's consent"),
            Action::Failover(FailoverMode::Force, _) => f.write_str("take over by vote"),
            Action::Failover(FailoverMode::Takeover, _) => f.write_str("take over without a vote"),
            Action::Forget(ids) => {
                write!(f, "forget {}", ids.iter().map(NodeId::short).collect::<Vec<_>>().join(", "))
            }
            Action::MigrateSlots(slots, to, _) => write!(f, "give slots {slots} to {}", to.short()),
            Action::Leave => f.write_str("leave the cluster"),
            Action::OpenGate(Start::AsIs, why) => write!(f, "start as it is: {why}"),
            Action::OpenGate(Start::Fresh, why) => write!(f, "start as a new node: {why}"),
        }
    }
}

fn names(peers: &[Peer]) -> String {
    match peers {
        peers if peers.len() > 6 => format!("{} nodes", peers.len()),
        peers => peers.iter().map(|peer| peer.pod.as_str()).collect::<Vec<_>>().join(", "),
    }
}
