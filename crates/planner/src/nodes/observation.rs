//! What is wanted of a cluster and what was seen of it. Pure data; the operator fills it from the spec, the pods and the line.

use super::action::Action;
use super::record::{Orchestration, Queued, Shard};
use jiff::Timestamp;
use std::time::Duration;
use topology::{Location, NodeId, NodeView, PodName, PodUid, Position, Role, ViewSummary};

/// What the spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What the pods are named after.
    pub cluster: String,
    pub masters: usize,
    pub replicas_per_master: usize,
    /// `/data` is a PersistentVolumeClaim: what a pod had may come back in another. An emptyDir lives as long as its pod.
    pub persistent: bool,
    /// Valkey's cluster-node-timeout.
    pub node_timeout: Duration,
    /// A primary with fewer replicas that follow takes no writes.
    pub min_replicas_to_write: usize,
}

impl Target {
    pub fn pods(&self) -> usize {
        self.masters * (1 + self.replicas_per_master)
    }
}

/// Everything that is known of the Valkey nodes, and what the status last recorded of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeObservation {
    /// Every pod of the StatefulSet that exists.
    pub pods: Vec<PodObservation>,
    /// The shards as last recorded in the status.
    pub recorded: Vec<Shard>,
    /// The orchestration under way.
    pub running: Option<Orchestration>,
    pub queue: Vec<Queued>,
}

/// One pod, and what its own sidecar last said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodObservation {
    pub name: PodName,
    pub uid: PodUid,
    pub ip: Option<String>,
    pub location: Location,
    /// The zone of its Kubernetes node is being looked up. Only where pods are placed that is waited for.
    pub zone_awaited: bool,
    pub ready: bool,
    pub terminating: bool,
    /// Its sidecar is on the line now. What was said before a lost connection counts for nothing.
    pub connected: bool,
    /// When its Valkey was last known to answer, while its sidecar is not on the line. None when that was never heard.
    pub last_answer: Option<Timestamp>,
    pub valkey: Valkey,
    /// Of a primary that does not run: how far its sidecar saw it come, at most about a second before its end.
    pub last_position: Option<Position>,
    /// The latest answer to ReadView on this connection. `NodeFacts::summary` is then at least as new as this view's.
    pub view: Option<NodeView>,
    /// Commands of ours that are being carried out there; it gets no others meanwhile.
    pub under_way: Vec<Action>,
    /// The latest answer to a command other than Probe and ReadView, or a failed one of those.
    pub answer: Option<Answered>,
}

/// What the sidecar says of its Valkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Valkey {
    Unknown,
    /// The process is not there: seen by the sidecar beside it.
    Down {
        since: Timestamp,
        /// Its node id when it was last heard, if it was.
        node_id: Option<NodeId>,
    },
    /// It waits at the boot gate.
    Waiting(Boot),
    Answers(NodeFacts),
}

/// What is in the data directory of a Valkey that waits at the boot gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    pub since: Timestamp,
    pub reason: String,
    pub last_node_id: Option<NodeId>,
    pub last_role: Option<Role>,
    pub has_data: bool,
    pub clean_stop: bool,
    pub owned_slots: bool,
    pub known_replicas: Vec<NodeId>,
    /// A replica that answers its sidecar and has what this node would not load.
    pub better_copy: Option<NodeId>,
    /// Its data was written along, to the last second: a replica that is not heard has no more than that.
    pub journal: bool,
}

/// What a Valkey that answers says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    pub node_id: NodeId,
    pub role: Role,
    pub loading: bool,
    /// Its sidecar holds it fit for clients, which it is not while its writes are held back or its volume is full.
    pub serving: bool,
    pub replication_offset: u64,
    /// Replicas that followed the same primary have the same; offsets compare only then.
    pub replication_id: Option<String>,
    pub primary: Option<NodeId>,
    pub primary_link_up: bool,
    pub following: Following,
    pub keys: u64,
    pub started_at: Option<Timestamp>,
    pub summary: ViewSummary,
}

impl NodeFacts {
    /// A new node: a primary of nothing that knows nobody.
    pub fn fresh(node_id: NodeId) -> Self {
        Self {
            node_id,
            role: Role::Primary,
            loading: false,
            serving: true,
            replication_offset: 0,
            replication_id: None,
            primary: None,
            primary_link_up: false,
            following: Following::Unknown,
            keys: 0,
            started_at: None,
            summary: ViewSummary { known_nodes: 1, ..ViewSummary::default() },
        }
    }
}

impl PodObservation {
    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether its latest words tell what was given to it: it may have taken slots, or a primary, without our hearing of it.
    pub fn is_settled(&self) -> bool {
        let given = self.answer.as_ref().filter(|answer| answer.action.is_gift());
        let told_since = |at| self.view.as_ref().is_some_and(|view| view.read_at >= at);
        !self.is_busy() && given.is_none_or(|answer| told_since(answer.at))
    }

    /// A pod that is there and was not heard.
    pub fn unheard(name: PodName, uid: PodUid) -> Self {
        Self {
            name,
            uid,
            ip: None,
            location: Location::default(),
            zone_awaited: false,
            ready: true,
            terminating: false,
            connected: false,
            last_answer: None,
            valkey: Valkey::Unknown,
            last_position: None,
            view: None,
            under_way: Vec::new(),
            answer: None,
        }
    }
}

/// Whether a replica has followed its primary since its process started. One that has not holds what its own disk had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Following {
    /// It is no replica, or its sidecar is too old to say.
    #[default]
    Unknown,
    Never,
    Now,
    Until(Timestamp),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub at: Timestamp,
    pub orchestration: String,
    pub step_version: u64,
    pub action: Action,
    pub outcome: Outcome,
    /// False also when it was so before the command came.
    pub changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Nothing was done, and asking again changes nothing.
    Refused(String),
    /// It was tried, or no answer came. What is true now has to be read again.
    Failed(String),
}
