//! What one node finds out about another before something is done that is only right if that one is gone. Pure.

use topology::{ClusterNode, ClusterNodes};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It answers, and sees this.
    Serves(ClusterNodes),
    /// Its process took the connection and did not say what it sees: it loads, is busy, full, closed to us, or hangs. It may have
    /// acknowledged writes, and may go on to.
    There(String),
    /// Nobody listens at its address, another node does, or its pod runs another node now.
    Gone,
    /// No sign from its address: its machine is gone, or the network between.
    OutOfReach,
}

impl Presence {
    /// Why the node cannot be taken for gone. From here a machine without power and a network that is cut look the same. The flag
    /// `fail` tells them apart as far as it matters: a majority of primaries has not heard the node for a node timeout, and a
    /// primary that hears no majority for that long takes no more writes.
    pub fn objection(&self, node: &ClusterNode) -> Option<String> {
        match self {
            Self::Serves(_) => Some(format!("{} answers", node.id)),
            Self::There(reason) => Some(format!("{} is there and may serve ({reason})", node.id)),
            Self::OutOfReach if !node.has_flag("fail") => {
                Some(format!("{} is out of reach from here, and no majority says that it has failed", node.id))
            }
            Self::OutOfReach | Self::Gone => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(flags: &str) -> ClusterNode {
        ClusterNodes::parse(&format!("n 10.0.0.2:6379@16379 {flags} - 0 0 1 disconnected 1-5\n")).unwrap().0.remove(0)
    }

    #[test]
    fn a_node_is_gone_by_a_refused_connection_or_by_the_majority_and_not_by_silence() {
        let there = || Presence::There("NOAUTH Authentication required.".into());
        for (presence, flags, gone) in [
            (Presence::Gone, "master", true),
            (Presence::Gone, "master,fail?", true),
            (Presence::OutOfReach, "master", false),
            (Presence::OutOfReach, "master,fail?", false),
            (Presence::OutOfReach, "master,fail", true),
            (there(), "master", false),
            (there(), "master,fail", false),
            (Presence::Serves(ClusterNodes(Vec::new())), "master,fail", false),
        ] {
            assert_eq!(presence.objection(&node(flags)).is_none(), gone, "{presence:?} {flags}");
        }
    }
}
