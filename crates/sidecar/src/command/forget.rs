//! Forget: nodes that are gone for good leave this node's view.

use super::{
    desk::{Desk, Stop, Work, myself},
    neighbour,
};
use link::contract;
use topology::{ClusterNode, ClusterNodes, NodeId};

pub async fn run(desk: &mut Desk<'_>, forget: &contract::Forget) -> Work {
    if forget.node_ids.is_empty() {
        return Err(Stop::invalid("node_ids is empty: name at least one node"));
    }
    let nodes = desk.nodes().await?;
    let ids: Vec<NodeId> = forget.node_ids.iter().map(|id| NodeId::new(id)).collect();
    let known: Vec<&ClusterNode> = ids.iter().filter_map(|id| nodes.find(id)).collect();
    for node in &known {
        check(&nodes, node)?;
        if neighbour::answering(node).await.is_some() {
            return Err(Stop::unsafe_because(format!("{} answers", node.id)));
        }
    }
    let mut connection = desk.connect().await?;
    for node in &known {
        connection.cluster_forget(&node.id).await?;
        desk.did(format!("CLUSTER FORGET {}", node.id));
    }
    let gone = |mut connection: valkey::Connection| {
        let ids = ids.clone();
        async move {
            let nodes = connection.cluster_nodes().await?;
            Ok(ids.iter().all(|id| nodes.find(id).is_none()))
        }
    };
    desk.until("these nodes are forgotten", gone).await?;
    Ok(!known.is_empty())
}

fn check(nodes: &ClusterNodes, node: &ClusterNode) -> Result<(), Stop> {
    let myself = myself(nodes)?;
    let objection = if node.id == myself.id {
        "is this node itself"
    } else if myself.primary.as_ref() == Some(&node.id) {
        "is the primary of this node"
    } else if !node.slots.is_empty() {
        "serves slots"
    } else {
        return Ok(());
    };
    Err(Stop::unsafe_because(format!("{} {objection}", node.id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_oneself_nor_ones_primary_nor_whoever_serves_slots_is_forgotten() {
        let nodes = ClusterNodes::parse(
            "me 10.0.0.1:6379@16379 myself,slave p 0 0 1 connected\n\
             p 10.0.0.2:6379@16379 master,fail - 0 0 1 disconnected\n\
             o 10.0.0.3:6379@16379 master,fail - 0 0 1 disconnected 1-5\n\
             x 10.0.0.4:6379@16379 slave,fail o 0 0 1 disconnected\n",
        )
        .unwrap();
        let allowed = |id: &str| check(&nodes, nodes.find(&id.into()).unwrap()).is_ok();
        assert_eq!(["me", "p", "o", "x"].map(allowed), [false, false, false, true]);
    }
}
