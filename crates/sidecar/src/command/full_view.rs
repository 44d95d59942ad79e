//! The whole cluster as this node sees it, in the contract's words. Pure.

use crate::{line::server_state::ServerState, role::contract_role};
use link::contract::{FullView, NodeAddress, SlotMove, SlotRange, ViewedNode};
use topology::{ClusterNode, ClusterNodes};

pub fn full_view(server: &ServerState) -> Option<FullView> {
    let nodes = server.nodes.as_ref()?;
    let viewed = nodes.0.iter().map(|node| viewed(node, nodes, &server.shard_id));
    Some(FullView { summary: server.cluster_view(), nodes: viewed.collect() })
}

fn viewed(node: &ClusterNode, nodes: &ClusterNodes, own_shard: &str) -> ViewedNode {
    ViewedNode {
        node_id: node.id.to_string(),
        address: node.address.map(|address| NodeAddress {
            ip: address.ip().to_string(),
            port: address.port().into(),
            bus_port: node.bus_port.into(),
            ..NodeAddress::default()
        }),
        role: contract_role(node.role()).into(),
        myself: node.has_flag("myself"),
        failing: node.has_flag("fail"),
        link_up: node.connected,
        primary_node_id: node.primary.as_ref().map(ToString::to_string).unwrap_or_default(),
        config_epoch: node.config_epoch,
        slots: node
            .slots
            .ranges()
            .iter()
            .map(|range| SlotRange { first: range.first.into(), last: range.last.into() })
            .collect(),
        moving: node.moves.iter().map(moving).collect(),
        hostname: node.hostname.clone().unwrap_or_default(),
        handshake: node.has_flag("handshake"),
        // Valkey tells only a node's own; those of the same shard have the same.
        shard_id: if shares_shard(node, nodes) { own_shard.to_owned() } else { String::new() },
        possibly_failing: node.has_flag("fail?"),
    }
}

fn moving(slot: &topology::SlotMove) -> SlotMove {
    SlotMove { slot: slot.slot.into(), other_node_id: slot.other.to_string(), importing: slot.importing }
}

fn shares_shard(node: &ClusterNode, nodes: &ClusterNodes) -> bool {
    let head = |node: &ClusterNode| node.primary.clone().unwrap_or_else(|| node.id.clone());
    nodes.myself().is_some_and(|myself| head(myself) == head(node))
}
