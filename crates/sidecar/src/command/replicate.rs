//! Replicate: this node becomes a replica of another. It gives up what it holds, so it must hold nothing that is only here.

use super::desk::{Desk, Stop, Work, myself};
use crate::line::look::Look;
use link::contract;
use topology::{ClusterNode, ClusterNodes, NodeId};

pub async fn run(desk: &mut Desk<'_>, wanted: &contract::Replicate) -> Work {
    let primary = &NodeId::new(&wanted.primary_node_id);
    if wanted.primary_node_id.is_empty() {
        return Err(Stop::invalid("primary_node_id is empty"));
    }
    let look = desk.look().await?;
    let nodes = look.nodes.as_ref().ok_or_else(|| Stop::Failed("this server is not in cluster mode".into()))?;
    let myself = myself(nodes)?;
    if myself.id == *primary {
        return Err(Stop::invalid("primary_node_id is this node itself"));
    }
    if myself.primary.as_ref() == Some(primary) {
        return Ok(false);
    }
    check(&look, nodes, myself)?;
    wait_for(desk, primary).await?;
    follow(desk, primary).await
}

/// Nodes that have just met hear of each other within moments.
async fn wait_for(desk: &Desk<'_>, primary: &NodeId) -> Result<(), Stop> {
    let known = |mut connection: valkey::Connection| {
        let primary = primary.clone();
        async move { Ok(connection.cluster_nodes().await?.find(&primary).is_some_and(ClusterNode::is_primary)) }
    };
    desk.until(&format!("this node knows {primary} as a primary"), known).await
}

async fn follow(desk: &mut Desk<'_>, primary: &NodeId) -> Work {
    desk.connect().await?.cluster_replicate(primary).await?;
    desk.did(format!("CLUSTER REPLICATE {primary}"));
    let follows = |mut connection: valkey::Connection| {
        let primary = primary.clone();
        async move {
            let nodes = connection.cluster_nodes().await?;
            Ok(nodes.myself().is_some_and(|node| node.primary.as_ref() == Some(&primary)))
        }
    };
    desk.until("this node is a replica of it", follows).await?;
    Ok(true)
}

fn check(look: &Look, nodes: &ClusterNodes, myself: &ClusterNode) -> Result<(), Stop> {
    let keys = look.node_state(contract::Condition::Unspecified).keys;
    if !myself.slots.is_empty() {
        return Err(Stop::unsafe_because("this node serves slots: their data would be thrown away"));
    }
    match &myself.primary {
        None if keys > 0 => {
            Err(Stop::unsafe_because(format!("this node is a primary with {keys} keys that no other node may have")))
        }
        Some(former) if keys > 0 && !is_safe_with(nodes, look, former) => Err(Stop::unsafe_because(format!(
            "this replica may hold the last copy of the slots of {former}, which cannot be reached"
        ))),
        _ => Ok(()),
    }
}

/// A replica's keys are safe elsewhere while its primary is there, or when that serves no slots any more.
fn is_safe_with(nodes: &ClusterNodes, look: &Look, primary: &NodeId) -> bool {
    let Some(node) = nodes.find(primary) else { return false };
    let linked = look.info.text("master_link_status") == Some("up");
    node.slots.is_empty() || (node.is_sound() && linked)
}
