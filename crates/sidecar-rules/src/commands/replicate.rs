//! Replicate: this node becomes a replica of another. It gives up what it holds, so it must hold nothing that is only here.

use super::{Need, Objection, leave::Primary, myself};
use topology::{ClusterNode, ClusterNodes, NodeId};

/// What the node says of its own data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub keys: u64,
    /// Its link to its primary is up.
    pub link_up: bool,
}

/// `former`: what the primary that it follows now said when it was asked itself; `None` when there is none, or no answer.
pub fn check(nodes: &ClusterNodes, primary: &NodeId, held: Held, former: Option<&Primary>) -> Result<Need, Objection> {
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
    match last_copy(nodes, myself, held, former) {
        Some(detail) => Err(Objection::Unsafe(detail)),
        None => Ok(Need::Change),
    }
}

/// Why what this node holds may be nowhere else.
fn last_copy(
    nodes: &ClusterNodes,
    myself: &ClusterNode,
    Held { keys, link_up }: Held,
    former: Option<&Primary>,
) -> Option<String> {
    if !myself.slots.is_empty() {
        return Some("this node serves slots: their data would be thrown away".into());
    }
    match &myself.primary {
        None if keys > 0 => Some(format!("this node is a primary with {keys} keys that no other node may have")),
        Some(id) if keys > 0 && !is_safe_with(nodes, id, link_up) => {
            Some(format!("this replica may hold the last copy of the slots of {id}, which cannot be reached"))
        }
        Some(id) if keys > 0 && is_half_moved(nodes, myself, id, former) => {
            Some(format!("this replica may hold the last copy of keys of a slot that is half moved to {id}"))
        }
        _ => None,
    }
}

/// A replica's keys are safe elsewhere while its primary is there, or when that serves no slots any more.
fn is_safe_with(nodes: &ClusterNodes, primary: &NodeId, link_up: bool) -> bool {
    let Some(node) = nodes.find(primary) else { return false };
    node.slots.is_empty() || (node.is_sound() && link_up)
}

/// Its primary serves no slots and has keys all the same, or is expected to get some.
fn is_half_moved(nodes: &ClusterNodes, myself: &ClusterNode, primary: &NodeId, former: Option<&Primary>) -> bool {
    let itself =
        former.and_then(|former| former.view.myself()).is_some_and(|node| node.id == *primary && node.is_primary());
    let has_keys = itself && former.is_some_and(|former| former.keys > 0);
    let serves = nodes.find(primary).is_some_and(|node| !node.slots.is_empty());
    !serves && (has_keys || !myself.moves.is_empty())
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
        check(&ClusterNodes::parse(&nodes).unwrap(), &primary.into(), held, None)
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
    fn keys_of_a_slot_that_is_half_moved_to_its_primary_are_not_given_up() {
        let nodes = |me: &str| {
            let lines =
                format!("me 10.0.0.1:6379@16379 myself,{me}\nn 10.0.0.4:6379@16379 master - 0 0 3 connected\n{OTHERS}");
            ClusterNodes::parse(&lines).unwrap()
        };
        let says = |keys, line: &str| {
            let view = ClusterNodes::parse(&format!("n 10.0.0.4:6379@16379 myself,{line} - 0 0 3 connected")).unwrap();
            Primary { view, keys, replication_id: "h".into() }
        };
        let asked = |me, held, former: Option<&Primary>| check(&nodes(me), &"p".into(), held, former);
        let follows = "slave n 0 0 3 connected";
        let refused = |asked| matches!(asked, Err(Objection::Unsafe(_)));
        assert!(refused(asked(follows, FULL, Some(&says(3, "master")))));
        assert!(refused(asked("slave n 0 0 3 connected [5-<-p]", FULL, None)), "newer servers tell their replicas");
        for former in [None, Some(&says(0, "master")), Some(&says(3, "slave"))] {
            assert_eq!(asked(follows, FULL, former), Ok(Need::Change), "{former:?}");
        }
        assert_eq!(asked(follows, EMPTY, Some(&says(3, "master"))), Ok(Need::Change));
    }

    #[test]
    fn nobody_follows_nobody_or_itself() {
        for primary in ["", "me"] {
            assert!(matches!(asked("master - 0 0 0 connected", primary, EMPTY), Err(Objection::Invalid(_))));
        }
    }
}
