//! One Valkey process: what it is, what it holds, what it believes of the others. Pure data and small rules.

use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use topology::{
    ClusterNode, ClusterNodes, NodeId, NodeView, Position, Role, SlotMove, SlotSet, ViewSummary, ViewedNode,
};

const PORT: u16 = 6379;

/// What a node believes of another.
#[derive(Clone, Debug)]
pub struct Peer {
    pub ip: String,
    pub role: Role,
    pub primary: Option<NodeId>,
    pub slots: SlotSet,
    pub config_epoch: u64,
    pub failing: bool,
    pub possibly_failing: bool,
    pub failed_at: u64,
    pub heard_at: u64,
    pub link_up: bool,
    pub pod: String,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    pub pod: String,
    pub ip: String,
    pub role: Role,
    pub primary: Option<NodeId>,
    pub slots: SlotSet,
    /// Slots that stand open between this node and another.
    pub moves: Vec<SlotMove>,
    pub config_epoch: u64,
    pub current_epoch: u64,
    pub keys: BTreeSet<u32>,
    pub offset: u64,
    pub replication_id: u64,
    pub second_replication_id: u64,
    pub link_up: bool,
    /// When the link to the primary was last up in this run, while it is down.
    pub link_lost_at: Option<u64>,
    /// A full copy of the primary's data is under way until then.
    pub syncing_until: Option<u64>,
    pub started_at: u64,
    pub voted_epoch: u64,
    pub voted_at: BTreeMap<NodeId, u64>,
    pub peers: BTreeMap<NodeId, Peer>,
    /// Addresses that were met and have not answered, and until when they are tried.
    pub meeting: BTreeMap<String, u64>,
    /// Forgotten ids and until when they stay so.
    pub forgotten: BTreeMap<NodeId, u64>,
    pub election_at: Option<u64>,
}

impl Node {
    pub fn new(id: NodeId, pod: &str, ip: &str, replication_id: u64, now: u64) -> Node {
        Node {
            id,
            pod: pod.to_owned(),
            ip: ip.to_owned(),
            role: Role::Primary,
            primary: None,
            slots: SlotSet::default(),
            moves: Vec::new(),
            config_epoch: 0,
            current_epoch: 0,
            keys: BTreeSet::new(),
            offset: 0,
            replication_id,
            second_replication_id: 0,
            link_up: false,
            link_lost_at: None,
            syncing_until: None,
            started_at: now,
            voted_epoch: 0,
            voted_at: BTreeMap::new(),
            peers: BTreeMap::new(),
            meeting: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            election_at: None,
        }
    }

    pub fn owns(&self, slot: u16) -> bool {
        self.role == Role::Primary && self.slots.contains(slot)
    }

    /// Primaries with slots as this node knows them: the electorate.
    pub fn electorate(&self) -> usize {
        let others = self.peers.values().filter(|peer| peer.role == Role::Primary && !peer.slots.is_empty()).count();
        others + usize::from(self.role == Role::Primary && !self.slots.is_empty())
    }

    pub fn become_replica_of(&mut self, primary: &NodeId) {
        self.role = Role::Replica;
        self.primary = Some(primary.clone());
        self.slots = SlotSet::default();
        self.moves.clear();
        (self.link_up, self.link_lost_at) = (false, None);
        self.election_at = None;
    }

    pub fn lose_link(&mut self, now: u64) {
        if std::mem::take(&mut self.link_up) {
            self.link_lost_at = Some(now);
        }
    }

    pub fn position(&self) -> Position {
        Position { replication_id: format!("{:016x}", self.replication_id), offset: self.offset }
    }

    fn assigned(&self) -> SlotSet {
        self.peers.values().fold(self.slots.clone(), |all, peer| all.union(&peer.slots))
    }

    fn state_ok(&self) -> bool {
        let lives = |peer: &&Peer| {
            peer.role == Role::Primary && !peer.slots.is_empty() && !peer.failing && !peer.possibly_failing
        };
        let reachable = self.peers.values().filter(lives).count() + usize::from(!self.slots.is_empty());
        self.electorate() > 0 && reachable * 2 > self.electorate()
    }

    pub fn summary(&self) -> ViewSummary {
        ViewSummary {
            state_ok: self.state_ok(),
            current_epoch: self.current_epoch,
            my_epoch: self.config_epoch,
            known_nodes: u32::try_from(self.peers.len() + 1).unwrap_or(u32::MAX),
            primaries: u32::try_from(self.electorate()).unwrap_or(u32::MAX),
            failing_nodes: self.count(|peer| peer.failing || peer.possibly_failing),
            failed_nodes: self.count(|peer| peer.failing),
            slots_assigned: self.assigned().count(),
            slots_mine: self.slots.count(),
            slots_digest: self.slots_digest(),
        }
    }

    fn count(&self, counts: impl Fn(&Peer) -> bool) -> u32 {
        u32::try_from(self.peers.values().filter(|peer| counts(peer)).count()).unwrap_or(u32::MAX)
    }

    /// Equal for two nodes that agree who owns what. Not written as text: it is compared at every tick.
    fn slots_digest(&self) -> Vec<u8> {
        let others = self.peers.iter().map(|(id, peer)| (id, &peer.slots));
        let mut owners: Vec<(&NodeId, &SlotSet)> = others.chain([(&self.id, &self.slots)]).collect();
        owners.retain(|(_, slots)| !slots.is_empty());
        owners.sort_unstable();
        let mut digest = Vec::new();
        for (id, slots) in owners {
            digest.extend_from_slice(id.as_str().as_bytes());
            for range in slots.ranges() {
                digest.extend([range.first.to_be_bytes(), range.last.to_be_bytes()].concat());
            }
        }
        digest
    }

    pub fn view(&self, read_at: Timestamp) -> NodeView {
        let myself = ViewedNode {
            node_id: self.id.clone(),
            ip: self.ip.clone(),
            hostname: Some(hostname(&self.pod)),
            role: self.role,
            myself: true,
            failing: false,
            possibly_failing: false,
            handshake: false,
            link_up: true,
            primary: self.primary.clone(),
            config_epoch: self.config_epoch,
            slots: self.slots.clone(),
            moves: self.moves.clone(),
        };
        let others = self.peers.iter().map(|(id, peer)| line(id, peer));
        NodeView { read_at, summary: self.summary(), nodes: [myself].into_iter().chain(others).collect() }
    }

    /// What it answers to CLUSTER NODES, and what its nodes.conf says.
    pub fn cluster_nodes(&self) -> ClusterNodes {
        ClusterNodes(self.view(Timestamp::UNIX_EPOCH).nodes.into_iter().map(cluster_node).collect())
    }
}

fn line(id: &NodeId, peer: &Peer) -> ViewedNode {
    ViewedNode {
        node_id: id.clone(),
        ip: peer.ip.clone(),
        hostname: Some(hostname(&peer.pod)),
        role: peer.role,
        myself: false,
        failing: peer.failing,
        possibly_failing: peer.possibly_failing,
        handshake: false,
        link_up: peer.link_up,
        primary: peer.primary.clone(),
        config_epoch: peer.config_epoch,
        slots: peer.slots.clone(),
        moves: Vec::new(),
    }
}

fn cluster_node(line: ViewedNode) -> ClusterNode {
    let role = if line.role == Role::Primary { "master" } else { "slave" };
    let flags = [(line.myself, "myself"), (true, role), (line.failing, "fail"), (line.possibly_failing, "fail?")];
    ClusterNode {
        id: line.node_id,
        address: address(&line.ip),
        bus_port: PORT + 10_000,
        hostname: line.hostname,
        flags: flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.to_owned()).collect(),
        primary: line.primary,
        heard_at: 0,
        config_epoch: line.config_epoch,
        connected: line.link_up,
        slots: line.slots,
        moves: line.moves,
    }
}

/// Where the Valkey of a pod with this address listens.
pub fn address(ip: &str) -> Option<SocketAddr> {
    ip.parse().ok().map(|ip| SocketAddr::new(ip, PORT))
}

fn hostname(pod: &str) -> String {
    let cluster = pod.rsplit_once('-').map_or(pod, |(cluster, _)| cluster);
    format!("{pod}.{cluster}-headless.test.svc")
}

/// The slot of a key.
pub fn slot(key: u32) -> u16 {
    u16::try_from(key.wrapping_mul(2_654_435_761) >> 18).unwrap_or_default()
}
