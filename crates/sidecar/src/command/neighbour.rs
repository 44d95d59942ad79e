//! Asking another node directly, before something is done that is only right if it is gone. IO.

use std::{net::SocketAddr, time::Duration};
use tokio::{net::lookup_host, time::timeout};
use topology::{ClusterNode, ClusterNodes};
use valkey::{Address, Connection};

/// A node on a healthy network answers within a few milliseconds; one whose process is gone refuses at once.
const PATIENCE: Duration = Duration::from_millis(400);

/// What the node at this address sees; `None` when it gives no answer in time.
pub async fn view_of(address: SocketAddr, patience: Duration) -> Option<ClusterNodes> {
    let mut connection = Connection::open(&Address::Tcp(address), patience).await.ok()?;
    connection.cluster_nodes().await.ok()
}

/// The same node, by its id, answers at the address it is known by. An address is handed on to other pods, an id is not.
pub async fn answering(node: &ClusterNode) -> Option<ClusterNodes> {
    let view = view_of(node.address?, PATIENCE).await?;
    view.myself().is_some_and(|other| other.id == node.id).then_some(view)
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
