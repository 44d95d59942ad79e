//! What this node was when it last ran, from the nodes.conf beside its data. IO to read, pure to understand.

use crate::durable_file::{self, WriteFile};
use link::contract::Role;
use std::{fs, io, net::SocketAddr, path::Path};
use topology::{ClusterNodes, NodeId, SlotSet};

const FILE: &str = "nodes.conf";

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
    /// It followed this node to the end and is not in its nodes.conf: somebody had it forgotten. It is known by its address, and
    /// `id` is that.
    pub unlisted: bool,
}

impl Past {
    pub fn read(data_dir: &Path) -> Self {
        match fs::read_to_string(data_dir.join(FILE)) {
            Ok(text) => Self::understand(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Unknown,
            Err(error) => Self::Damaged(error.to_string()),
        }
    }

    fn understand(text: &str) -> Self {
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

    /// Takes in who was seen to follow this node when it ended.
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

/// Takes the epoch of this node's own line in nodes.conf back to nothing: whoever serves its slots wins over it then.
pub fn concede(data_dir: &Path) -> Result<(), ConcedeError> {
    let file = data_dir.join(FILE);
    let text = fs::read_to_string(&file).map_err(ConcedeError::Read)?;
    let lines = text.lines().map(|line| if is_own(line) { conceded(line) } else { line.to_owned() } + "\n");
    durable_file::write_if_changed(&file, &lines.collect::<String>()).map(drop).map_err(ConcedeError::Write)
}

#[derive(Debug, thiserror::Error)]
pub enum ConcedeError {
    #[error("could not read nodes.conf")]
    Read(#[source] io::Error),
    #[error("could not change nodes.conf")]
    Write(#[source] WriteFile),
}

fn is_own(line: &str) -> bool {
    line.split(' ').nth(2).is_some_and(|flags| flags.split(',').any(|flag| flag == "myself"))
}

/// id, address, flags, primary, ping, pong, epoch, link, slots…
fn conceded(line: &str) -> String {
    let words = line.split(' ').enumerate().map(|(index, word)| if index == 6 { "0" } else { word });
    words.collect::<Vec<&str>>().join(" ")
}

impl PastNode {
    fn of(nodes: &ClusterNodes) -> Option<Self> {
        let myself = nodes.myself()?;
        let others = nodes.0.iter().filter(|node| node.id != myself.id && !node.has_flag("handshake"));
        let peers = others.map(|node| Peer {
            id: node.id.clone(),
            address: node.address,
            hostname: node.hostname.clone(),
            replica_of_mine: node.primary.as_ref() == Some(&myself.id),
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
                self.peers.push(Peer { id, address, hostname: None, replica_of_mine: true, unlisted: true });
            }
        }
    }

    pub fn replicas(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| peer.replica_of_mine)
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
        let Past::Node(node) = Past::understand(PRIMARY) else { panic!("it is a node") };
        assert_eq!((node.role, node.config_epoch, node.slots.ranges().len()), (Role::Primary, 7, 1));
        assert_eq!(node.peers.iter().map(|peer| peer.id.as_str()).collect::<Vec<_>>(), ["r1", "o1"]);
        assert_eq!(node.replicas().map(|peer| peer.hostname.as_deref()).collect::<Vec<_>>(), [Some("p-1.h")]);
    }

    #[test]
    fn who_followed_it_to_the_end_is_asked_although_nodes_conf_does_not_list_it() {
        let mut past = Past::understand(PRIMARY);
        past.remember(&["10.0.0.2:6379".parse().unwrap(), "10.0.0.9:6379".parse().unwrap()]);
        let replicas: Vec<_> = past.node().unwrap().replicas().map(|peer| (peer.id.as_str(), peer.unlisted)).collect();
        assert_eq!(replicas, [("r1", false), ("10.0.0.9:6379", true)]);
    }

    #[test]
    fn conceding_changes_the_own_epoch_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), PRIMARY).unwrap();
        concede(folder.path()).unwrap();
        let expected = PRIMARY.replace("myself,master - 0 0 7", "myself,master - 0 0 0");
        assert_ne!(expected, PRIMARY);
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), expected);
    }

    #[test]
    fn nothing_there_is_unknown_and_half_a_file_is_damaged() {
        assert_eq!(Past::read(Path::new("/nowhere")), Past::Unknown);
        assert_eq!(Past::understand("\n"), Past::Unknown);
        for cut in ["me 10.0.0.1:6379@16379 mys", "r1 10.0.0.2:6379@16379 slave me 0 1 7 connected\n"] {
            assert!(matches!(Past::understand(cut), Past::Damaged(_)), "{cut}");
        }
    }
}
