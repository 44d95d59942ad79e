//! Meet: this node gets to know the nodes at these addresses, and they its slots.

use super::{
    desk::{Desk, Stop, Work, myself},
    neighbour,
};
use link::contract::{self, NodeAddress};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use topology::{ClusterNode, ClusterNodes, NodeId};
use valkey::Connection;

const PATIENCE: Duration = Duration::from_millis(700);
/// For the other side to finish its part of the introduction: a few of Valkey's ten ticks a second.
const INTRODUCTION: Duration = Duration::from_millis(400);
const LOOK: Duration = Duration::from_millis(15);

struct Target {
    address: SocketAddr,
    bus_port: u16,
    /// Who has to be there; empty when an older operator does not say.
    node_id: String,
}

pub async fn run(desk: &mut Desk<'_>, meet: &contract::Meet) -> Work {
    let targets = meet.nodes.iter().map(target).collect::<Result<Vec<Target>, Stop>>()?;
    if targets.is_empty() {
        return Err(Stop::invalid("nodes is empty: name at least one address"));
    }
    let nodes = desk.nodes().await?;
    let strange: Vec<&Target> = targets.iter().filter(|target| !knows(&nodes, target.address)).collect();
    for target in &strange {
        check(&nodes, target).await?;
    }
    let mut connection = desk.connect().await?;
    for target in &strange {
        let Target { address, bus_port, .. } = target;
        connection.cluster_meet_on_bus(&address.ip().to_string(), address.port(), *bus_port).await?;
        desk.did(format!("CLUSTER MEET {address}"));
    }
    let all_known = |mut connection: valkey::Connection| {
        let addresses: Vec<SocketAddr> = targets.iter().map(|target| target.address).collect();
        async move {
            let nodes = connection.cluster_nodes().await?;
            Ok(addresses.into_iter().all(|address| knows(&nodes, address)))
        }
    };
    desk.until("all these nodes are known and connected", all_known).await?;
    let me = myself(&nodes)?;
    if !me.slots.is_empty() && !strange.is_empty() {
        greet_again(&mut desk.connect().await?, &me.id, &strange).await?;
    }
    Ok(!strange.is_empty())
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
    Ok(Target { address, bus_port, node_id: node.node_id.clone() })
}

fn knows(nodes: &ClusterNodes, address: SocketAddr) -> bool {
    let mut there = nodes.0.iter().filter(|node| node.address == Some(address));
    there.any(|node| node.connected && !node.has_flag("handshake") && !node.has_flag("noaddr"))
}

/// Two clusters that both serve a slot must never meet: the one with the lower epoch would lose its data.
async fn check(nodes: &ClusterNodes, target: &Target) -> Result<(), Stop> {
    let address = target.address;
    let view = neighbour::view_of(address, PATIENCE).await;
    let view = view.ok_or_else(|| Stop::Failed(format!("{address} gives no answer; nothing was done")))?;
    // An address is handed on to other pods, also to those of other clusters; an empty one of those would be met unnoticed.
    if let Some(found) = view.myself().filter(|found| !target.node_id.is_empty() && found.id.as_str() != target.node_id) {
        return Err(Stop::Failed(format!("{} is at {address} now; nothing was done", found.id)));
    }
    match conflict(nodes, &view) {
        Some(slot) => Err(Stop::unsafe_because(format!(
            "{address} belongs to another cluster: slot {slot} is served by nodes that do not know each other"
        ))),
        None => Ok(()),
    }
}

/// A node that its own cluster has declared dead serves nothing: its slots may have been given to a new one.
fn conflict(ours: &ClusterNodes, theirs: &ClusterNodes) -> Option<u16> {
    let strange = |node: &ClusterNode, to: &ClusterNodes| to.find(&node.id).is_none() && !node.has_flag("fail");
    let strangers = theirs.0.iter().filter(|node| strange(node, ours));
    let mut slots = strangers.flat_map(|node| node.slots.iter());
    slots.find(|slot| ours.owner_of(*slot).is_some_and(|owner| strange(owner, theirs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(lines: &[&str]) -> ClusterNodes {
        ClusterNodes::parse(&lines.join("\n")).unwrap()
    }

    #[test]
    fn a_slot_served_by_strangers_on_both_sides_is_a_conflict() {
        let ours = view(&["a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-9"]);
        let foreign = view(&["x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 5-20"]);
        let fresh = view(&["x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected"]);
        let beside = view(&["x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 10-20"]);
        let old_friend = view(&[
            "x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 5-20",
            "a 10.0.0.1:6379@16379 master - 0 0 1 connected",
        ]);
        let replaced = view(&[
            "y 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 10-20",
            "gone 10.0.0.8:6379@16379 master,fail - 0 0 1 disconnected 0-9",
        ]);
        let suspected = view(&[
            "y 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 10-20",
            "gone 10.0.0.8:6379@16379 master,fail? - 0 0 1 disconnected 0-9",
        ]);
        let views = [&foreign, &fresh, &beside, &old_friend, &replaced, &suspected];
        assert_eq!(views.map(|theirs| conflict(&ours, theirs)), [Some(5), None, None, None, None, Some(0)]);
    }
}
