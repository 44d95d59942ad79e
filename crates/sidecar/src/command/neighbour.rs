//! Asking another node directly, before something is done that is only right if it is gone. IO.

use sidecar_rules::commands::{Presence, meet};
use std::{net::SocketAddr, time::Duration};
use tokio::{net::lookup_host, time::timeout};
use topology::{ClusterNode, ClusterNodes};
use valkey::{Address, CallError, Connection};

/// A node on a healthy network answers within a few milliseconds; one whose process is gone refuses at once.
const PATIENCE: Duration = Duration::from_millis(400);

/// What the node at this address sees; `None` when it gives no answer in time.
pub async fn view_of(address: SocketAddr, patience: Duration) -> Option<ClusterNodes> {
    ask(address, patience).await.ok()
}

async fn ask(address: SocketAddr, patience: Duration) -> Result<ClusterNodes, CallError> {
    Connection::open(&Address::Tcp(address), patience).await?.cluster_nodes().await
}

/// Whether the node is where it is known to be. An address is handed on to other pods, an id is not.
pub async fn presence(node: &ClusterNode) -> Presence {
    // Valkey takes an address away from a node when it has met another one there.
    let Some(address) = node.address else { return Presence::Gone };
    let mut found = ask(address, PATIENCE).await;
    if matches!(found, Err(CallError::Closed { .. } | CallError::Broken { .. })) {
        // A process that ends resets what it has just taken; asked again, its end shows.
        found = ask(address, PATIENCE).await;
    }
    match judge(node, found) {
        Presence::OutOfReach if is_replaced(node).await => Presence::Gone,
        presence => presence,
    }
}

fn judge(node: &ClusterNode, found: Result<ClusterNodes, CallError>) -> Presence {
    match found {
        Ok(view) if view.myself().is_some_and(|other| other.id == node.id) => Presence::Serves(view),
        Ok(_) => Presence::Gone,
        Err(error) if error.nobody_listens() => Presence::Gone,
        // No route is no proof: a network that is cut has none either.
        Err(CallError::Connect { .. } | CallError::ConnectDeadline { .. }) => Presence::OutOfReach,
        Err(error) => Presence::There(error.to_string()),
    }
}

/// Not asked for where the majority has said already that it failed.
async fn is_replaced(node: &ClusterNode) -> bool {
    !node.has_flag("fail") && at_its_name(node).await.is_some_and(|there| meet::is_replaced(node, &there))
}

/// What the node sees that answers where this node's host name leads now.
pub async fn at_its_name(node: &ClusterNode) -> Option<ClusterNodes> {
    let (name, port) = (node.hostname.as_deref()?, node.address?.port());
    let found = timeout(PATIENCE, lookup_host((name, port))).await.ok()?.ok()?;
    for address in found {
        if let Some(view) = view_of(address, PATIENCE).await {
            return Some(view);
        }
    }
    None
}
