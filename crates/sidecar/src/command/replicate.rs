//! Replicate: this node becomes a replica of another. It gives up what it holds, so it must hold nothing that is only here.

use super::{
    execution::{Execution, Stop, Work},
    leave,
};
use link::contract::{self, Condition};
use sidecar_rules::commands::{
    Need,
    leave::primary_to_ask,
    replicate::{Held, check},
};
use topology::{ClusterNode, NodeId};

pub async fn run(execution: &mut Execution<'_>, wanted: &contract::Replicate) -> Work {
    let primary = NodeId::new(&wanted.primary_node_id);
    let server = execution.observe().await?;
    let nodes = server.nodes.as_ref().ok_or_else(|| Stop::Failed("this server is not in cluster mode".into()))?;
    let state = server.node_state(Condition::Unspecified);
    let held = Held { keys: state.keys, link_up: state.primary_link_up };
    let former = primary_to_ask(nodes).filter(|former| former.slots.is_empty()).and_then(|former| former.address);
    let former = match former {
        Some(address) => leave::ask(address).await,
        None => None,
    };
    if check(nodes, &primary, held, former.as_ref())? == Need::Nothing {
        return Ok(false);
    }
    wait_for(execution, &primary).await?;
    follow(execution, &primary).await
}

/// Nodes that have just met hear of each other within moments.
async fn wait_for(execution: &Execution<'_>, primary: &NodeId) -> Result<(), Stop> {
    let known = |mut connection: valkey::Connection| {
        let primary = primary.clone();
        async move { Ok(connection.cluster_nodes().await?.find(&primary).is_some_and(ClusterNode::is_primary)) }
    };
    execution.until(&format!("this node knows {primary} as a primary"), known).await
}

async fn follow(execution: &mut Execution<'_>, primary: &NodeId) -> Work {
    execution.connect().await?.cluster_replicate(primary).await?;
    execution.did(format!("CLUSTER REPLICATE {primary}"));
    let follows = |mut connection: valkey::Connection| {
        let primary = primary.clone();
        async move {
            let nodes = connection.cluster_nodes().await?;
            Ok(nodes.myself().is_some_and(|node| node.primary.as_ref() == Some(&primary)))
        }
    };
    execution.until("this node is a replica of it", follows).await?;
    Ok(true)
}
