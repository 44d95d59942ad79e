//! Forget: nodes that are gone for good leave this node's view.

use super::{
    desk::{Desk, Work},
    neighbour,
};
use link::contract;
use sidecar_rules::commands::forget::{check, known};
use topology::NodeId;

pub async fn run(desk: &mut Desk<'_>, forget: &contract::Forget) -> Work {
    let ids: Vec<NodeId> = forget.node_ids.iter().map(NodeId::new).collect();
    let nodes = desk.nodes().await?;
    let known = known(&nodes, &ids)?;
    for node in &known {
        check(&nodes, node, neighbour::answering(node).await.is_some())?;
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
