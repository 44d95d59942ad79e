//! Forget: nodes that are gone for good leave this node's view.

use super::{Objection, Presence, migrate_slots, myself};
use topology::{ClusterNode, ClusterNodes, NodeId};

/// Those of the nodes that this node still knows.
pub fn known<'a>(nodes: &'a ClusterNodes, ids: &[NodeId]) -> Result<Vec<&'a ClusterNode>, Objection> {
    if ids.is_empty() {
        return Err(Objection::invalid("node_ids is empty: name at least one node"));
    }
    Ok(ids.iter().filter_map(|id| nodes.find(id)).collect())
}

/// `presence`: what was found out about the node.
pub fn check(nodes: &ClusterNodes, node: &ClusterNode, presence: &Presence) -> Result<(), Objection> {
    let myself = myself(nodes)?;
    let owned = if node.id == myself.id {
        Some("is this node itself".to_owned())
    } else if myself.primary.as_ref() == Some(&node.id) {
        Some("is the primary of this node".to_owned())
    } else if !node.slots.is_empty() {
        Some("serves slots".to_owned())
    } else {
        // A replica's notes hold it too: what it forgets, its primary is told to forget.
        let open = myself.moves.iter().find(|open| open.other == node.id);
        open.map(|open| {
            let way_out = migrate_slots::way_out(open.slot, &node.id);
            format!("may have keys of slot {}, which is half moved between it and this node; {way_out}", open.slot)
        })
    };
    let objection = owned.map(|reason| format!("{} {reason}", node.id)).or_else(|| presence.objection(node));
    objection.map_or(Ok(()), |reason| Err(Objection::unsafe_because(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> ClusterNodes {
        ClusterNodes::parse(
            "me 10.0.0.1:6379@16379 myself,slave p 0 0 1 connected\n\
             p 10.0.0.2:6379@16379 master,fail - 0 0 1 disconnected\n\
             o 10.0.0.3:6379@16379 master,fail - 0 0 1 disconnected 1-5\n\
             x 10.0.0.4:6379@16379 slave,fail o 0 0 1 disconnected\n",
        )
        .unwrap()
    }

    #[test]
    fn a_node_does_not_forget_itself_its_primary_one_that_serves_slots_or_one_that_answers() {
        let nodes = nodes();
        let allowed = |id: &str, presence| check(&nodes, nodes.find(&id.into()).unwrap(), presence).is_ok();
        assert_eq!(["me", "p", "o", "x"].map(|id| allowed(id, &Presence::Gone)), [false, false, false, true]);
        assert!(!allowed("x", &Presence::Serves(nodes.clone())));
    }

    #[test]
    fn a_node_to_which_a_slot_is_half_moved_is_not_forgotten() {
        let nodes = ClusterNodes::parse(
            "me :0@0 myself,master - 0 0 1 connected 1-5 [5->-x]\nx :0@0 master,fail - 0 0 1 connected\n",
        );
        let nodes = nodes.unwrap();
        assert!(check(&nodes, nodes.find(&"x".into()).unwrap(), &Presence::Gone).is_err());
    }

    #[test]
    fn a_node_that_is_there_or_out_of_reach_is_not_forgotten_before_the_majority_says_that_it_failed() {
        let failed = nodes();
        let doubted =
            ClusterNodes::parse("me :0@0 myself,master - 0 0 1 connected\nx :0@0 slave,fail? o 0 0 1 connected\n");
        let doubted = doubted.unwrap();
        let allowed = |nodes: &ClusterNodes, presence| check(nodes, nodes.find(&"x".into()).unwrap(), presence).is_ok();
        let there = Presence::There("no answer".into());
        assert!(!allowed(&failed, &there) && !allowed(&doubted, &there));
        assert!(allowed(&failed, &Presence::OutOfReach) && !allowed(&doubted, &Presence::OutOfReach));
    }

    #[test]
    fn only_those_it_knows_are_left_to_forget() {
        let nodes = nodes();
        let left = known(&nodes, &["x".into(), "gone".into()]).unwrap();
        assert_eq!(left.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["x"]);
        assert!(matches!(known(&nodes, &[]), Err(Objection::Invalid(_))));
    }
}
