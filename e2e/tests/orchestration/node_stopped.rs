//! A node loses power with primaries on it: their replicas take over although the dead pods are still there and never become Ready.

use crate::formed::{formed, loaded, loaded_twice, promoted, stopped_whole};
use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, Scenario, Test, operator, sound,
    view::{Node, topology},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;

#[test]
fn primaries_of_a_stopped_node_are_replaced_while_their_pods_are_not_ready() -> Result<()> {
    let scenario = Scenario::named("primaries-of-a-stopped-node-are-replaced");
    scenario.breaks_nodes().run(async |test| {
        let (old, new) = tokio::join!(formed(test, "old", "8.1", json!({})), formed(test, "new", "9.1", json!({})));
        let (old, new) = (old?, new?);
        let node = node_of_a_primary_each(test, &[&old, &new]).await?;
        let (old_heirs, new_heirs) = (heirs(&old, &node).await?, heirs(&new, &node).await?);
        let (old_load, new_load) = (loaded_twice(&old).await?, loaded_twice(&new).await?);
        let fault = test.stop_node(&node).await?;
        for (cluster, heirs) in [(&old, &old_heirs), (&new, &new_heirs)] {
            for heir in heirs {
                promoted(cluster, &heir.pod).await?;
            }
        }
        // What the dead primaries' heirs take alone is safe as well.
        let (old_alone, new_alone) = (loaded(&old).await?, loaded(&new).await?);
        fault.mend().await?;
        tokio::try_join!(sound(&old, 3, 1), sound(&new, 3, 1))?;
        tokio::try_join!(stopped_whole(old_load), stopped_whole(new_load))?;
        tokio::try_join!(stopped_whole(old_alone), stopped_whole(new_alone))?;
        Ok(())
    })
}

/// Replicas elsewhere of the primaries on a node.
pub async fn heirs(cluster: &Cluster<'_>, node: &str) -> Result<Vec<Node>> {
    let (topology, pods) = (topology(cluster).await?, pods_on(cluster, node).await?);
    let lost = topology.primaries().into_iter().filter(|primary| pods.contains(&primary.pod)).map(|node| &node.id);
    let lost: Vec<_> = lost.collect();
    let led_by_lost = |node: &&Node| node.primary.as_ref().is_some_and(|primary| lost.contains(&primary));
    let heirs: Vec<_> = topology.nodes.iter().filter(led_by_lost).cloned().collect();
    ensure!(heirs.iter().all(|heir| !pods.contains(&heir.pod)), "a whole shard is on {node}: {topology:?}");
    Ok(heirs)
}

pub async fn pods_on(cluster: &Cluster<'_>, node: &str) -> Result<Vec<String>> {
    let on = |pod: &&Pod| node_of(pod) == node;
    Ok(cluster.pods().await?.iter().filter(on).map(ResourceExt::name_any).collect())
}

/// A node without the operator and with primaries of each cluster, but never with most of them.
pub async fn node_of_a_primary_each(test: &Test, clusters: &[&Cluster<'_>]) -> Result<String> {
    let operators = Api::<Pod>::namespaced(test.client(), &operator::namespace());
    let selection = ListParams::default().labels("app.kubernetes.io/component=operator");
    let taken: Vec<_> =
        operators.list(&selection).await.context("list the operator's pods")?.iter().map(node_of).collect();
    for node in test.nodes().await?.into_iter().filter(|node| !taken.contains(node)) {
        let mut suits = true;
        for cluster in clusters {
            suits &= heirs(cluster, &node).await?.len() == 1;
        }
        if suits {
            return Ok(node);
        }
    }
    anyhow::bail!("no node has exactly one primary of each cluster and not the operator on {taken:?}")
}

fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}
