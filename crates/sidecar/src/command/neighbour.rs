//! Asking another node directly, before something is done that is only right if it is gone. IO.

use futures::future::join_all;
use sidecar_rules::commands::{Findings, Found, Presence};
use std::{collections::BTreeSet, net::SocketAddr, time::Duration};
use tokio::{net::lookup_host, time::timeout};
use topology::{ClusterNode, ClusterNodes};
use valkey::{Address, CallError, Connection};

/// A node on a healthy network answers within a few milliseconds; one whose process is gone refuses at once.
pub const PATIENCE: Duration = Duration::from_millis(400);

/// What the node at this address sees; `None` when it gives no answer in time.
pub async fn view_of(address: SocketAddr, patience: Duration) -> Option<ClusterNodes> {
    ask(address, patience).await.ok()
}

async fn ask(address: SocketAddr, patience: Duration) -> Result<ClusterNodes, CallError> {
    Connection::open(&Address::Tcp(address), patience).await?.cluster_nodes().await
}

/// Looks for the node where it is known to be and where its host name leads now: an address is handed on to other pods, an id is not.
/// `port`: of the node that asks; all pods of a cluster have the same, and of a node without an address it is not known.
pub async fn presence(node: &ClusterNode, port: Option<u16>) -> Presence {
    // Valkey takes an address away from a node when it has met another one there.
    let known = async { Some(look(node.address?).await) };
    let (at_address, places) = tokio::join!(known, places_of_its_name(node, port));
    let at_name = match places {
        Some(places) => join_all(places.into_iter().map(|place| look_unless(node.address, &at_address, place))).await,
        None => vec![Found::Silent],
    };
    Presence::of(node, &Findings { at_address, at_name })
}

/// The pod's name mostly leads to the address that was asked already.
async fn look_unless(asked: Option<SocketAddr>, there: &Option<Found>, place: SocketAddr) -> Found {
    match there {
        Some(found) if asked == Some(place) => found.clone(),
        _ => look(place).await,
    }
}

/// None at all when its name does not resolve: that is no sign of life. `None` when nobody resolves it in time: it may lead anywhere.
async fn places_of_its_name(node: &ClusterNode, port: Option<u16>) -> Option<BTreeSet<SocketAddr>> {
    let port = node.address.map(|address| address.port()).or(port);
    let (Some(name), Some(port)) = (node.hostname.as_deref(), port) else { return Some(BTreeSet::new()) };
    let resolved = timeout(PATIENCE, lookup_host((name, port))).await.ok()?;
    Some(resolved.map(Iterator::collect).unwrap_or_default())
}

async fn look(address: SocketAddr) -> Found {
    let mut found = ask(address, PATIENCE).await;
    if matches!(found, Err(CallError::Closed { .. } | CallError::Broken { .. })) {
        // A process that ends resets what it has just taken; asked again, its end shows.
        found = ask(address, PATIENCE).await;
    }
    match found {
        Ok(view) => Found::Answers(view),
        Err(error) if error.nobody_listens() => Found::Refused,
        // No route is no proof: a network that is cut has none either.
        Err(CallError::Connect { .. } | CallError::ConnectDeadline { .. }) => Found::Silent,
        Err(error) => Found::Hidden(error.to_string()),
    }
}

/// What the node sees that answers where this node's host name leads now.
pub async fn at_its_name(node: &ClusterNode) -> Option<ClusterNodes> {
    for address in places_of_its_name(node, None).await? {
        if let Some(view) = view_of(address, PATIENCE).await {
            return Some(view);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use valkey::testing::{BOTH_VERSIONS, TestServer};

    /// Nobody listens at the address it is known by.
    #[tokio::test]
    async fn a_primary_that_moved_is_found_by_its_host_name_even_without_a_known_address() {
        for version in BOTH_VERSIONS {
            let server = TestServer::start(version, &["--cluster-enabled", "yes", "--bind", "127.0.0.1"]).unwrap();
            let id = server.connect().await.unwrap().cluster_my_id().await.unwrap();
            let known = |endpoint: &str| {
                let line = format!("{id} {endpoint}@0,localhost master - 0 0 1 disconnected 1-5\n");
                ClusterNodes::parse(&line).unwrap().0.remove(0)
            };
            for endpoint in [format!("127.0.0.9:{}", server.port), ":0".to_owned()] {
                let presence = presence(&known(&endpoint), Some(server.port)).await;
                assert!(matches!(presence, Presence::Serves(_)), "{version:?} {endpoint}: {presence:?}");
            }
        }
    }
}
