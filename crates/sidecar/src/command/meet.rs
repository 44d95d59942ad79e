//! Meet: this node gets to know the nodes at these addresses, and they its slots.

use super::{
    execution::{Execution, Stop, Work},
    neighbour,
};
use link::contract::{self, NodeAddress};
use sidecar_rules::commands::{
    meet::{check, is_replaced, knows, suspects},
    myself,
};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use topology::{ClusterNodes, NodeId};
use valkey::Connection;

const PATIENCE: Duration = Duration::from_millis(700);
/// For the other side to finish its part of the introduction: a few of Valkey's ten ticks a second.
const INTRODUCTION: Duration = Duration::from_millis(400);
const LOOK: Duration = Duration::from_millis(15);

struct Target {
    address: SocketAddr,
    bus_port: u16,
    /// Who has to be there; `None` when an older operator does not say.
    node_id: Option<NodeId>,
}

pub async fn run(execution: &mut Execution<'_>, meet: &contract::Meet) -> Work {
    let targets = meet.nodes.iter().map(target).collect::<Result<Vec<Target>, Stop>>()?;
    if targets.is_empty() {
        return Err(Stop::invalid("nodes is empty: name at least one address"));
    }
    let nodes = execution.nodes().await?;
    let strange: Vec<&Target> = targets.iter().filter(|target| !knows(&nodes, target.address)).collect();
    for target in &strange {
        let theirs = neighbour::view_of(target.address, PATIENCE).await;
        let replaced = replaced(&nodes, theirs.as_ref()).await;
        check(&nodes, target.address, target.node_id.as_ref(), theirs.as_ref(), &replaced)?;
    }
    let mut connection = execution.connect().await?;
    for target in &strange {
        let Target { address, bus_port, .. } = target;
        connection.cluster_meet_on_bus(&address.ip().to_string(), address.port(), *bus_port).await?;
        execution.did(format!("CLUSTER MEET {address}"));
    }
    let all_known = |mut connection: valkey::Connection| {
        let addresses: Vec<SocketAddr> = targets.iter().map(|target| target.address).collect();
        async move {
            let nodes = connection.cluster_nodes().await?;
            Ok(addresses.into_iter().all(|address| knows(&nodes, address)))
        }
    };
    execution.until("all these nodes are known and connected", all_known).await?;
    let me = myself(&nodes)?;
    if !me.slots.is_empty() && !strange.is_empty() {
        greet_again(&mut execution.connect().await?, &me.id, &strange).await?;
    }
    Ok(!strange.is_empty())
}

/// The nodes that one side misses and whose pods run others now.
async fn replaced(ours: &ClusterNodes, theirs: Option<&ClusterNodes>) -> Vec<NodeId> {
    let mut replaced = Vec::new();
    for suspect in theirs.map(|theirs| suspects(ours, theirs)).unwrap_or_default() {
        let there = neighbour::at_its_name(suspect).await;
        if there.is_some_and(|there| is_replaced(suspect, &there)) {
            replaced.push(suspect.id.clone());
        }
    }
    replaced
}

/// A node takes slots only from those it knows already, so the first greeting brings none. Without a second one it would hear
/// of ours at some later ping, up to half a node timeout away.
async fn greet_again(connection: &mut Connection, me: &NodeId, targets: &[&Target]) -> Result<(), Stop> {
    let until = Instant::now() + INTRODUCTION;
    for Target { address, bus_port, .. } in targets {
        if is_known_without_slots(me, *address, until).await {
            connection.cluster_meet_on_bus(&address.ip().to_string(), address.port(), *bus_port).await?;
        }
    }
    Ok(())
}

/// Waits until the node at this address knows us; false when it has our slots already, or the time is over.
async fn is_known_without_slots(me: &NodeId, address: SocketAddr, until: Instant) -> bool {
    while Instant::now() < until {
        let view = neighbour::view_of(address, PATIENCE).await;
        match view.as_ref().and_then(|view| view.find(me)).filter(|us| !us.has_flag("handshake")) {
            Some(us) => return us.slots.is_empty(),
            None => sleep(LOOK).await,
        }
    }
    false
}

fn target(node: &NodeAddress) -> Result<Target, Stop> {
    let wrong = |field: &str| Stop::invalid(format!("nodes: {field} of {node:?} is not usable"));
    let ip: IpAddr = node.ip.parse().map_err(|_| wrong("ip"))?;
    let port = |number: u32, field| u16::try_from(number).ok().filter(|port| *port > 0).ok_or_else(|| wrong(field));
    let (address, bus_port) = (SocketAddr::new(ip, port(node.port, "port")?), port(node.bus_port, "bus_port")?);
    let node_id = Some(NodeId::new(&node.node_id)).filter(|id| !id.as_str().is_empty());
    Ok(Target { address, bus_port, node_id })
}
