//! Replicate: this node becomes a replica of another. It gives up what it holds, so it must hold nothing that is only here.

use super::{Need, Objection, myself};
use topology::{ClusterNode, ClusterNodes, NodeId};

/// What the node says of its own data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub keys: u64,
    /// Its link to its primary is up.
    pub link_up: bool,
}

pub fn check(nodes: &ClusterNodes, primary: &NodeId, held: Held) -> Result<Need, Objection> {
    if primary.as_str().is_empty() {
        return Err(Objection::invalid("primary_node_id is empty"));
    }
    let myself = myself(nodes)?;
    if myself.id == *primary {
        return Err(Objection::invalid("primary_node_id is this node itself"));
    }
    if myself.primary.as_ref() == Some(primary) {
        return Ok(Need::Nothing);
    }
    match last_copy(nodes, myself, held) {
        Some(detail) => Err(Objection::Unsafe(detail)),
        None => Ok(Need::Change),
    }
}

/// Why what this node holds may be nowhere else.
fn last_copy(nodes: &ClusterNodes, myself: &ClusterNode, Held { keys, link_up }: Held) -> Option<String> {
    if !myself.slots.is_empty() {
        return Some("this node serves slots: their data would be thrown away".into());
    }
    match &myself.primary {
        None if keys > 0 => Some(format!("this node is a primary with {keys} keys that no other node may have")),
        Some(former) if keys > 0 && !is_safe_with(nodes, former, link_up) => {
            Some(format!("this replica may hold the last copy of the slots of {former}, which cannot be reached"))
        }
        _ => None,
    }
}

/// A replica's keys are safe elsewhere while its primary is there, or when that serves no slots any more.
fn is_safe_with(nodes: &ClusterNodes, primary: &NodeId, link_up: bool) -> bool {
    let Some(node) = nodes.find(primary) else { return false };
    node.slots.is_empty() || (node.is_sound() && link_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "p 10.0.0.2:6379@16379 master - 0 0 1 connected 0-9\n\
        q 10.0.0.3:6379@16379 master - 0 0 2 connected 10-19\n";
    const EMPTY: Held = Held { keys: 0, link_up: false };
    const FULL: Held = Held { keys: 7, link_up: false };

    fn asked(me: &str, primary: &str, held: Held) -> Result<Need, Objection> {
        let nodes = format!("me 10.0.0.1:6379@16379 myself,{me}\n{OTHERS}");
        check(&ClusterNodes::parse(&nodes).unwrap(), &primary.into(), held)
    }

    #[test]
    fn a_node_without_slots_and_keys_follows_any_other() {
        assert_eq!(asked("master - 0 0 0 connected", "p", EMPTY), Ok(Need::Change));
        assert_eq!(asked("slave q 0 0 0 connected", "p", EMPTY), Ok(Need::Change));
        assert_eq!(asked("slave p 0 0 0 connected", "p", FULL), Ok(Need::Nothing));
    }

    #[test]
    fn what_may_be_the_last_copy_is_not_given_up() {
        let refused = |me, held| matches!(asked(me, "p", held), Err(Objection::Unsafe(_)));
        assert!(refused("master - 0 0 0 connected 20-29", EMPTY));
        assert!(refused("master - 0 0 0 connected", FULL));
        assert!(refused("slave q 0 0 0 connected", FULL));
        assert!(refused("slave gone 0 0 0 connected", Held { link_up: true, ..FULL }));
        assert!(!refused("slave q 0 0 0 connected", Held { link_up: true, ..FULL }));
    }

    #[test]
    fn nobody_follows_nobody_or_itself() {
        for primary in ["", "me"] {
            assert!(matches!(asked("master - 0 0 0 connected", primary, EMPTY), Err(Objection::Invalid(_))));
        }
    }
}
