//! The answer of CLUSTER NODES: one line per node as the asked node sees it. Pure.

use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNodes(pub Vec<ClusterNode>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    pub id: String,
    /// `None` while the node has no known address (`noaddr`, or the asked node itself before anybody met it).
    pub address: Option<SocketAddr>,
    pub hostname: Option<String>,
    pub flags: Vec<String>,
    pub primary: Option<String>,
    pub config_epoch: u64,
    pub connected: bool,
    pub slots: Vec<SlotRange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    pub first: u16,
    pub last: u16,
}

impl ClusterNodes {
    /// `None` when any line is not understood: half a view is no view.
    pub fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        lines.map(ClusterNode::parse).collect::<Option<Vec<_>>>().map(Self)
    }

    pub fn myself(&self) -> Option<&ClusterNode> {
        self.0.iter().find(|node| node.has_flag("myself"))
    }

    pub fn replicas_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a ClusterNode> {
        self.0.iter().filter(move |node| node.primary.as_deref() == Some(id))
    }
}

impl ClusterNode {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let id = words.next()?.to_owned();
        let (address, hostname) = endpoint(words.next()?);
        let flags = words.next()?.split(',').map(str::to_owned).collect();
        let primary = Some(words.next()?).filter(|id| *id != "-").map(str::to_owned);
        let config_epoch = words.nth(2)?.parse().ok()?;
        let connected = words.next()? == "connected";
        // Entries in brackets are slots on the move; they are still listed with their owner.
        let slots = words.filter(|word| !word.starts_with('[')).map(SlotRange::parse).collect::<Option<_>>()?;
        Some(Self { id, address, hostname, flags, primary, config_epoch, connected, slots })
    }

    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    pub fn is_primary(&self) -> bool {
        self.has_flag("master")
    }

    /// Neither failing, nor suspected, nor without address, nor still in handshake.
    pub fn is_sound(&self) -> bool {
        !["fail", "fail?", "noaddr", "handshake"].iter().any(|flag| self.has_flag(flag))
    }
}

impl SlotRange {
    fn parse(word: &str) -> Option<Self> {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        Some(Self { first: first.parse().ok()?, last: last.parse().ok()? })
    }
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
        assert_eq!(myself.slots, [SlotRange { first: 0, last: 5000 }, SlotRange { first: 5002, last: 5002 }]);
        assert!(myself.is_primary() && myself.connected && myself.is_sound());
        let replicas: Vec<_> = nodes.replicas_of(&myself.id).collect();
        assert_eq!(replicas.len(), 1);
        assert_eq!(replicas[0].address, Some("127.0.0.1:7004".parse().unwrap()));
        assert_eq!(replicas[0].hostname.as_deref(), Some("n7004.example"));
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
    }
}
