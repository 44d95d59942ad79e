//! Forget: nodes that are gone for good leave this node's view.

use super::{
    execution::{Execution, Work},
    neighbour,
};
use link::contract;
use sidecar_rules::commands::forget::{check, known};
use topology::NodeId;

pub async fn run(execution: &mut Execution<'_>, forget: &contract::Forget) -> Work {
    let ids: Vec<NodeId> = forget.node_ids.iter().map(NodeId::new).collect();
    let nodes = execution.nodes().await?;
    let known = known(&nodes, &ids)?;
    for node in &known {
        check(&nodes, node, neighbour::answering(node).await.is_some())?;
    }
    let mut connection = execution.connect().await?;
    for node in &known {
        connection.cluster_forget(&node.id).await?;
        execution.did(format!("CLUSTER FORGET {}", node.id));
    }
    let gone = |mut connection: valkey::Connection| {
        let ids = ids.clone();
        async move {
            let nodes = connection.cluster_nodes().await?;
            Ok(ids.iter().all(|id| nodes.find(id).is_none()))
        }
    };
    execution.until("these nodes are forgotten", gone).await?;
    Ok(!known.is_empty())
}
