//! Forget: nodes that are gone for good leave this node's view.

use super::{
    execution::{Execution, Work},
    neighbour,
};
use link::contract;
use sidecar_rules::commands::{
    Presence,
    forget::{check, known},
    own_port,
};
use tokio::task::JoinHandle;
use topology::{ClusterNode, NodeId};

pub async fn run(execution: &mut Execution<'_>, forget: &contract::Forget) -> Work {
    let ids: Vec<NodeId> = forget.node_ids.iter().map(NodeId::new).collect();
    let nodes = execution.nodes().await?;
    let known = known(&nodes, &ids)?;
    for (node, presence) in known.iter().zip(presences(&known, own_port(&nodes)).await) {
        check(&nodes, node, &presence)?;
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

/// All are asked at once: each that is out of reach costs its time.
async fn presences(nodes: &[&ClusterNode], port: Option<u16>) -> Vec<Presence> {
    let asked: Vec<_> = nodes.iter().map(|node| ask((*node).clone(), port)).collect();
    let mut presences = Vec::new();
    for asked in asked {
        presences.push(asked.await.unwrap_or(Presence::OutOfReach));
    }
    presences
}

fn ask(node: ClusterNode, port: Option<u16>) -> JoinHandle<Presence> {
    tokio::spawn(async move { neighbour::presence(&node, port).await })
}
