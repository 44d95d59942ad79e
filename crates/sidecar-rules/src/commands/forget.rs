//! Forget: nodes that are gone for good leave this node's view.

use super::{Objection, myself};
use topology::{ClusterNode, ClusterNodes, NodeId};

/// Those of the nodes that this node still knows.
pub fn known<'a>(nodes: &'a ClusterNodes, ids: &[NodeId]) -> Result<Vec<&'a ClusterNode>, Objection> {
    if ids.is_empty() {
        return Err(Objection::invalid("node_ids is empty: name at least one node"));
    }
    Ok(ids.iter().filter_map(|id| nodes.find(id)).collect())
}

/// `answers`: the node itself answers at its address.
pub fn check(nodes: &ClusterNodes, node: &ClusterNode, answers: bool) -> Result<(), Objection> {
    let myself = myself(nodes)?;
    let objection = if node.id == myself.id {
        "is this node itself"
    } else if myself.primary.as_ref() == Some(&node.id) {
        "is the primary of this node"
    } else if !node.slots.is_empty() {
        "serves slots"
    } else if answers {
        "answers"
    } else {
        return Ok(());
    };
    Err(Objection::unsafe_because(format!("{} {objection}", node.id)))
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
        let allowed = |id: &str, answers| check(&nodes, nodes.find(&id.into()).unwrap(), answers).is_ok();
        assert_eq!(["me", "p", "o", "x"].map(|id| allowed(id, false)), [false, false, false, true]);
        assert!(!allowed("x", true));
    }

    #[test]
    fn only_those_it_knows_are_left_to_forget() {
        let nodes = nodes();
        let left = known(&nodes, &["x".into(), "gone".into()]).unwrap();
        assert_eq!(left.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["x"]);
        assert!(matches!(known(&nodes, &[]), Err(Objection::Invalid(_))));
    }
}
