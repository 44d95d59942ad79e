//! A node off the network: its sidecars are reported as missing, by name, and are back when it is.

use crate::connected::all_connected;
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Scenario, Test, operator, replicas::operator_pods};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use serde_json::json;

#[test]
fn sidecars_of_a_cut_node_are_missed_and_return() -> Result<()> {
    let scenario = Scenario::named("sidecars-of-a-cut-node-are-missed-and-return");
    scenario.breaks_nodes().run(async |test| {
        let cluster = Cluster::create(test, "poc", json!({})).await?;
        all_connected(&cluster, 3).await?;
        let (node, pods) = elsewhere(test, &cluster).await?;
        let fault = test.cut_node(&node).await?;
        let missing = cluster.says("SidecarsConnected", "False", Some("SidecarsDisconnected")).await?;
        ensure!(pods.iter().all(|pod| missing.message.contains(pod)), "{} lacks {pods:?}", missing.message);
        let status = cluster.get().await?.status.context("it has a status")?;
        let first = status.pods.first().context("it lists pods")?;
        ensure!(!first.connected && pods.contains(&first.name), "the missing ones are not first: {first:?}");
        ensure!(first.last_heartbeat.is_some(), "nobody knows when {} last spoke", first.name);
        fault.mend().await?;
        all_connected(&cluster, 3).await?;
        Ok(())
    })
}

/// A node with pods of the cluster and without the operator, and those pods.
async fn elsewhere(test: &Test, cluster: &Cluster<'_>) -> Result<(String, Vec<String>)> {
    let operator_pod = operator_pods(test).await?.pop().context("the operator has a pod")?;
    let own = Api::<Pod>::namespaced(test.client(), &operator::namespace()).get(&operator_pod).await?;
    let pods = cluster.pods().await?;
    let away = pods.iter().map(node_of).find(|node| !node.is_empty() && *node != node_of(&own));
    let node = away.context("all pods are on the operator's node")?;
    let there = pods.iter().filter(|pod| node_of(pod) == node).map(ResourceExt::name_any).collect();
    Ok((node, there))
}

fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}
