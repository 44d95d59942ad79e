//! What a node was when it last ran, from the nodes.conf beside its data. Pure.

use std::net::SocketAddr;
use topology::{ClusterNode, ClusterNodes, NodeId, Role, SlotSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Past {
    /// Nothing of it is left, or it never ran.
    Unknown,
    /// Valkey would not start with it.
    Damaged(String),
    Node(PastNode),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastNode {
    pub id: NodeId,
    pub role: Role,
    pub slots: SlotSet,
    pub config_epoch: u64,
    pub peers: Vec<Peer>,
}

/// Another node it knew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub id: NodeId,
    pub address: Option<SocketAddr>,
    pub hostname: Option<String>,
    pub replica_of_mine: bool,
    /// It failed and lost its slots, perhaps to this node: it may still have what it held then.
    pub former_primary: bool,
    /// It followed this node to the end and is not in its nodes.conf: it was made to forget it. Only its address is known, and `id`
    /// is that.
    pub unlisted: bool,
}

impl Past {
    /// From the text of nodes.conf.
    pub fn parse(text: &str) -> Self {
        // Valkey takes an empty file for none.
        if text.trim().is_empty() {
            return Self::Unknown;
        }
        let nodes = ClusterNodes::parse(text);
        nodes
            .as_ref()
            .and_then(PastNode::of)
            .map_or_else(|| Self::Damaged("it is cut short or garbled".into()), Self::Node)
    }

    /// Adds the replicas that were attached to this node when it was last seen, whatever it was made to forget.
    pub fn remember(&mut self, attached: &[SocketAddr]) {
        if let Self::Node(node) = self {
            node.remember(attached);
        }
    }

    pub fn node(&self) -> Option<&PastNode> {
        match self {
            Self::Node(node) => Some(node),
            Self::Unknown | Self::Damaged(_) => None,
        }
    }
}

impl Peer {
    pub fn may_hold_copy(&self) -> bool {
        self.replica_of_mine || self.former_primary
    }
}

impl PastNode {
    /// `None` when the list does not have the node itself.
    pub fn of(nodes: &ClusterNodes) -> Option<Self> {
        let myself = nodes.myself()?;
        let others = nodes.0.iter().filter(|node| node.id != myself.id && !node.has_flag("handshake"));
        let peers = others.map(|node| Peer {
            id: node.id.clone(),
            address: node.address,
            hostname: node.hostname.clone(),
            replica_of_mine: node.primary.as_ref() == Some(&myself.id),
            former_primary: node.is_primary() && node.slots.is_empty() && node.has_flag("fail"),
            unlisted: false,
        });
        Some(Self {
            id: myself.id.clone(),
            role: if myself.is_primary() { Role::Primary } else { Role::Replica },
            slots: myself.slots.clone(),
            config_epoch: myself.config_epoch,
            peers: peers.collect(),
        })
    }

    fn remember(&mut self, attached: &[SocketAddr]) {
        for address in attached {
            if !self.peers.iter().any(|peer| peer.address == Some(*address)) {
                let (id, address) = (NodeId::new(address.to_string()), Some(*address));
                let peer =
                    Peer { id, address, hostname: None, replica_of_mine: true, former_primary: false, unlisted: true };
                self.peers.push(peer);
            }
        }
    }

    /// The pod of the peer, by its name, runs another node: what the peer had is gone, or set aside.
    pub fn is_replaced(peer: &Peer, answering: &ClusterNode) -> bool {
        peer.hostname.is_some() && peer.hostname == answering.hostname && peer.id != answering.id
    }

    /// The node that answers where the peer is expected is that peer: an address is reused, a node id is not.
    pub fn is_peer(&self, peer: &Peer, answering: &ClusterNode) -> bool {
        match peer.unlisted {
            true => answering.primary.as_ref() == Some(&self.id),
            false => answering.id == peer.id,
        }
    }

    pub fn replicas(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| peer.replica_of_mine)
    }

    /// Whoever may hold data of its slots.
    pub fn copies(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| peer.may_hold_copy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "\
me 10.0.0.1:6379@16379,p-0.h,shard-id=a,nodename=p-0 myself,master - 0 0 7 connected 0-5460
r1 10.0.0.2:6379@16379,p-1.h,shard-id=a slave me 0 1 7 connected
o1 10.0.0.3:6379@16379,,shard-id=b master - 0 1 3 connected 5461-16383
new 10.0.0.4:6379@16379 handshake - 0 0 0 disconnected
vars currentEpoch 7 lastVoteEpoch 0
";

    #[test]
    fn a_primary_its_replicas_and_the_others_are_understood() {
        let Past::Node(node) = Past::parse(PRIMARY) else { panic!("it is a node") };
        assert_eq!((node.role, node.config_epoch, node.slots.ranges().len()), (Role::Primary, 7, 1));
        assert_eq!(node.peers.iter().map(|peer| peer.id.as_str()).collect::<Vec<_>>(), ["r1", "o1"]);
        assert_eq!(node.replicas().map(|peer| peer.hostname.as_deref()).collect::<Vec<_>>(), [Some("p-1.h")]);
    }

    #[test]
    fn a_primary_that_failed_and_lost_its_slots_may_hold_a_copy() {
        let failed = "f1 10.0.0.4:6379@16379,p-4.h,shard-id=a master,fail - 0 1 6 disconnected\n";
        let Past::Node(node) = Past::parse(&format!("{failed}{PRIMARY}")) else { panic!("it is a node") };
        assert_eq!(node.copies().map(|peer| peer.id.as_str()).collect::<Vec<_>>(), ["f1", "r1"]);
        assert_eq!(node.replicas().map(|peer| peer.id.as_str()).collect::<Vec<_>>(), ["r1"]);
    }

    #[test]
    fn an_attached_replica_counts_although_nodes_conf_does_not_list_it() {
        let mut past = Past::parse(PRIMARY);
        past.remember(&["10.0.0.2:6379".parse().unwrap(), "10.0.0.9:6379".parse().unwrap()]);
        let replicas: Vec<_> = past.node().unwrap().replicas().map(|peer| (peer.id.as_str(), peer.unlisted)).collect();
        assert_eq!(replicas, [("r1", false), ("10.0.0.9:6379", true)]);
    }

    #[test]
    fn another_node_at_a_peers_address_is_not_that_peer() {
        let mut past = Past::parse(PRIMARY);
        past.remember(&["10.0.0.9:6379".parse().unwrap()]);
        let node = past.node().unwrap();
        let (listed, unlisted) = (&node.peers[0], node.peers.last().unwrap());
        let answers = |line: &str| ClusterNodes::parse(line).unwrap().0.remove(0);
        let r1 = answers("r1 10.0.0.2:6379@16379 myself,slave me 0 1 7 connected");
        let other = answers("x 10.0.0.2:6379@16379 myself,slave o1 0 1 7 connected");
        assert_eq!([listed, unlisted].map(|peer| node.is_peer(peer, &r1)), [true, true]);
        assert_eq!([listed, unlisted].map(|peer| node.is_peer(peer, &other)), [false, false]);
    }

    #[test]
    fn another_node_under_the_name_of_a_peer_has_replaced_it() {
        let past = Past::parse(PRIMARY);
        let peers = &past.node().unwrap().peers;
        let answers = |line: &str| ClusterNodes::parse(line).unwrap().0.remove(0);
        let new = answers("x 10.0.0.7:6379@16379,p-1.h myself,master - 0 0 0 connected");
        let same = answers("r1 10.0.0.7:6379@16379,p-1.h myself,slave me 0 0 0 connected");
        assert!(PastNode::is_replaced(&peers[0], &new) && !PastNode::is_replaced(&peers[0], &same));
        let unnamed = answers("x 10.0.0.3:6379@16379 myself,master - 0 0 0 connected");
        assert!(!PastNode::is_replaced(&peers[1], &new) && !PastNode::is_replaced(&peers[1], &unnamed));
    }

    #[test]
    fn an_empty_file_is_unknown_and_half_a_file_is_damaged() {
        assert_eq!(Past::parse("\n"), Past::Unknown);
        for cut in ["me 10.0.0.1:6379@16379 mys", "r1 10.0.0.2:6379@16379 slave me 0 1 7 connected\n"] {
            assert!(matches!(Past::parse(cut), Past::Damaged(_)), "{cut}");
        }
    }
}
