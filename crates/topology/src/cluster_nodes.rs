//! The answer of CLUSTER NODES, and the file nodes.conf: one line per node as the asked node sees it. Pure.

use crate::{identity::NodeId, slots::SlotSet, view::Role};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNodes(pub Vec<ClusterNode>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    pub id: NodeId,
    /// `None` while the node has no known address (`noaddr`, or the asked node itself before anybody met it).
    pub address: Option<SocketAddr>,
    /// 0 when not told.
    pub bus_port: u16,
    pub hostname: Option<String>,
    pub flags: Vec<String>,
    pub primary: Option<NodeId>,
    /// When anybody told the asked node that it had heard it, in milliseconds of the asked node's clock; 0 for itself, and when nobody did.
    pub heard_at: u64,
    pub config_epoch: u64,
    pub connected: bool,
    pub slots: SlotSet,
    /// Only told by the asked node of itself.
    pub moves: Vec<SlotMove>,
}

/// A slot in between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMove {
    pub slot: u16,
    pub other: NodeId,
    pub importing: bool,
}

impl ClusterNodes {
    /// `None` when any line is not understood: half a view is no view.
    pub fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        // The file nodes.conf ends with a line of counters; CLUSTER NODES has none.
        let lines = lines.filter(|line| !line.starts_with("vars "));
        lines.map(ClusterNode::parse).collect::<Option<Vec<_>>>().map(Self)
    }

    pub fn myself(&self) -> Option<&ClusterNode> {
        self.0.iter().find(|node| node.has_flag("myself"))
    }

    pub fn find(&self, id: &NodeId) -> Option<&ClusterNode> {
        self.0.iter().find(|node| node.id == *id)
    }

    /// The node that serves the slot, as far as the asked node knows.
    pub fn owner_of(&self, slot: u16) -> Option<&ClusterNode> {
        self.0.iter().find(|node| node.owns(slot))
    }

    /// Those that vote: primaries that serve slots.
    pub fn voters(&self) -> impl Iterator<Item = &ClusterNode> {
        self.0.iter().filter(|node| node.is_primary() && !node.slots.is_empty())
    }

    pub fn replicas_of<'a>(&'a self, id: &'a NodeId) -> impl Iterator<Item = &'a ClusterNode> {
        self.0.iter().filter(move |node| node.primary.as_ref() == Some(id))
    }
}

impl ClusterNode {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let id = NodeId::from(words.next()?);
        let endpoint = words.next()?;
        let (address, hostname) = self::endpoint(endpoint);
        let bus_port = bus_port(endpoint);
        let flags = words.next()?.split(',').map(str::to_owned).collect();
        let primary = Some(words.next()?).filter(|id| *id != "-").map(NodeId::from);
        let heard_at = words.nth(1)?.parse().ok()?;
        let config_epoch = words.next()?.parse().ok()?;
        let connected = words.next()? == "connected";
        // Entries in brackets are slots on the move; they are still listed with their owner.
        let (moving, owned): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('['));
        let slots = SlotSet::of(owned.into_iter().map(|word| word.parse().ok()).collect::<Option<Vec<_>>>()?).ok()?;
        let moves = moving.into_iter().map(SlotMove::parse).collect::<Option<_>>()?;
        Some(Self { id, address, bus_port, hostname, flags, primary, heard_at, config_epoch, connected, slots, moves })
    }

    pub fn owns(&self, slot: u16) -> bool {
        self.slots.contains(slot)
    }

    /// Failed, or possibly so.
    pub fn is_failing(&self) -> bool {
        self.has_failed() || self.has_flag("fail?")
    }

    pub fn has_failed(&self) -> bool {
        self.has_flag("fail")
    }

    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// `None` while it is not known, as in a handshake.
    pub fn role(&self) -> Option<Role> {
        match (self.has_flag("master"), self.has_flag("slave")) {
            (true, _) => Some(Role::Primary),
            (_, true) => Some(Role::Replica),
            _ => None,
        }
    }

    pub fn is_primary(&self) -> bool {
        self.role() == Some(Role::Primary)
    }

    /// Neither failing, nor suspected, nor without address, nor still in handshake.
    pub fn is_sound(&self) -> bool {
        !["fail", "fail?", "noaddr", "handshake"].iter().any(|flag| self.has_flag(flag))
    }
}

impl SlotMove {
    /// `[slot->-id]` leaves, `[slot-<-id]` arrives.
    fn parse(word: &str) -> Option<Self> {
        let inner = word.strip_prefix('[')?.strip_suffix(']')?;
        let (slot, other, importing) = match (inner.split_once("->-"), inner.split_once("-<-")) {
            (Some((slot, other)), _) => (slot, other, false),
            (None, Some((slot, other))) => (slot, other, true),
            (None, None) => return None,
        };
        Some(Self { slot: slot.parse().ok()?, other: other.into(), importing })
    }
}

fn bus_port(endpoint: &str) -> u16 {
    let bus = endpoint.split(',').next().and_then(|part| part.split_once('@'));
    bus.and_then(|(_, bus)| bus.parse().ok()).unwrap_or_default()
}

/// `ip:port@bus,hostname,key=value…`; an IPv6 address stands there without brackets.
fn endpoint(word: &str) -> (Option<SocketAddr>, Option<String>) {
    let mut parts = word.split(',');
    let address = parts.next().and_then(|part| part.split('@').next()).and_then(|part| part.rsplit_once(':'));
    let address = address.and_then(|(ip, port)| Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, port.parse().ok()?)));
    let hostname = parts.next().filter(|name| !name.is_empty() && !name.contains('=')).map(str::to_owned);
    (address.filter(|address| address.port() != 0), hostname)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR_NODES: &str = "\
d81ce003d6922d2e2d0170719de5e2d905ce47ae 127.0.0.1:7001@17001,n7001.example myself,master - 0 0 0 connected 0-5000 5002 [5002->-b6834b6df20fa9130802c3357031558b7b2ff986]
0116a19d8c7e89261c56260843aee760edd8b3b3 127.0.0.1:7003@17003,n7003.example master - 0 1794716624426 3 connected 10001-16383
b6834b6df20fa9130802c3357031558b7b2ff986 127.0.0.1:7002@17002,n7002.example master,fail? - 0 1794716624000 1 connected 5001 5003-10000
9e2c07e5590c515ec37fd992a556d59c445f700d 127.0.0.1:7004@17004,n7004.example slave d81ce003d6922d2e2d0170719de5e2d905ce47ae 0 1794716623421 0 connected
";

    #[test]
    fn nodes_slots_and_replicas_are_read() {
        let nodes = ClusterNodes::parse(FOUR_NODES).unwrap();
        let myself = nodes.myself().unwrap();
        assert_eq!(myself.slots.to_string(), "0-5000,5002");
        assert!(myself.is_primary() && myself.connected && myself.is_sound());
        let replicas: Vec<_> = nodes.replicas_of(&myself.id).collect();
        assert_eq!(replicas.len(), 1);
        assert_eq!(replicas[0].address, Some("127.0.0.1:7004".parse().unwrap()));
        assert_eq!(replicas[0].hostname.as_deref(), Some("n7004.example"));
    }

    #[test]
    fn owners_voters_moves_and_the_bus_are_read() {
        let nodes = ClusterNodes::parse(FOUR_NODES).unwrap();
        assert_eq!(nodes.owner_of(5001).map(|node| node.id.as_str()), Some("b6834b6df20fa9130802c3357031558b7b2ff986"));
        assert_eq!((nodes.voters().count(), nodes.0[0].bus_port), (3, 17001));
        let leaving =
            SlotMove { slot: 5002, other: "b6834b6df20fa9130802c3357031558b7b2ff986".into(), importing: false };
        assert_eq!(nodes.0[0].moves, [leaving]);
        let arriving = ClusterNodes::parse("1f8b :6379@16379 myself,master - 0 0 0 connected [7-<-2a]\n").unwrap();
        assert!(arriving.0[0].moves[0].importing && arriving.0[0].slots.is_empty());
    }

    #[test]
    fn the_file_with_its_counters_and_names_is_read_too() {
        let line = "1f8b 10.0.0.1:6379@16379,p-0.example,shard-id=a,nodename=p-0 myself,master - 0 0 1 connected 0-9\n";
        let nodes = ClusterNodes::parse(&format!("{line}vars currentEpoch 6 lastVoteEpoch 0\n")).unwrap();
        assert_eq!((nodes.0.len(), nodes.0[0].hostname.as_deref()), (1, Some("p-0.example")));
    }

    #[test]
    fn a_suspected_node_is_not_sound() {
        let nodes = ClusterNodes::parse(FOUR_NODES).unwrap();
        assert_eq!(nodes.0.iter().filter(|node| !node.is_sound()).count(), 1);
    }

    #[test]
    fn a_node_nobody_met_has_no_address() {
        let nodes = ClusterNodes::parse("1f8b :6379@16379 myself,master - 0 0 0 connected\n").unwrap();
        assert_eq!(nodes.0[0].address, None);
        assert_eq!(nodes.0[0].hostname, None);
    }

    #[test]
    fn an_ipv6_address_stands_without_brackets() {
        let nodes = ClusterNodes::parse("1f8b fd00::1:6379@16379,,shard-id=a slave,nofailover 2a 0 1 4 disconnected\n")
            .unwrap();
        assert_eq!(nodes.0[0].address, Some("[fd00::1]:6379".parse().unwrap()));
        assert_eq!((nodes.0[0].hostname.as_deref(), nodes.0[0].connected), (None, false));
    }

    #[test]
    fn one_line_that_is_not_understood_spoils_the_view() {
        assert_eq!(ClusterNodes::parse(&format!("{FOUR_NODES}garbage\n")), None);
        assert_eq!(ClusterNodes::parse("1f8b :6379@16379 myself,master - 0 0 0 connected 0-16384\n"), None);
    }
}
