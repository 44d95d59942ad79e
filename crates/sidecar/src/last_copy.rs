//! Whether a replica that is frozen may hold what nobody else has: then it is not killed for its silence. IO; the liveness probe asks.

use crate::{boot, volume, voters};
use sidecar_rules::voters::is_served;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{net::lookup_host, task::JoinSet, time::timeout};
use topology::{ClusterNode, ClusterNodes, NodeId, Role};
use valkey::Address;

const VOLUME: Duration = Duration::from_secs(1);
const NAME: Duration = Duration::from_millis(500);
/// Some speak for all.
const ASKED: usize = 8;

/// It cannot be asked itself, so its nodes.conf says whom it followed and who else there is.
pub async fn may_be_in(data_dir: &Path) -> bool {
    let folder: PathBuf = data_dir.to_owned();
    let known = volume::work_within(VOLUME, move || boot::known_nodes(&folder)).await;
    match known.ok().flatten() {
        Some(nodes) => is_orphan(&nodes).await,
        None => false,
    }
}

async fn is_orphan(nodes: &ClusterNodes) -> bool {
    let own = nodes.myself().filter(|own| own.role() == Some(Role::Replica));
    let Some(primary) = own.and_then(|own| own.primary.as_ref()) else { return false };
    // The primary first: it may answer for itself.
    let mut others: Vec<&ClusterNode> = nodes.0.iter().filter(|node| !node.has_flag("myself")).collect();
    others.sort_by_key(|node| (node.id != *primary, !node.is_primary()));
    let mut asked = JoinSet::new();
    for node in others.into_iter().take(ASKED) {
        asked.spawn(says_it_is_served(node.clone(), primary.clone()));
    }
    !asked.join_all().await.contains(&true)
}

/// Where it was, and where its name leads now.
async fn says_it_is_served(node: ClusterNode, primary: NodeId) -> bool {
    let mut addresses: Vec<SocketAddr> = node.address.into_iter().collect();
    if let Some((name, address)) = node.hostname.as_deref().zip(node.address) {
        let found = timeout(NAME, lookup_host((name, address.port()))).await;
        addresses.extend(found.ok().and_then(Result::ok).into_iter().flatten());
    }
    addresses.dedup();
    for address in addresses {
        if voters::view_of(&Address::Tcp(address)).await.is_ok_and(|view| is_served(&view, &primary)) {
            return true;
        }
    }
    false
}
