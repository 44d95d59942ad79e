//! From nothing to a cluster: slots dealt out evenly, replicas away from their primaries, and the status, the labels and the Service tell it.

use crate::formed::{fields, loaded, scenario, stopped_whole};
use anyhow::{Context, Result, ensure};
use api::cluster::ShardNodeStatus;
use api::names;
use e2e::{Cluster, measurement, sound, view::Topology};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;
use std::time::Instant;

#[test]
#[ignore = "8.1 here repeats what other tests show on 8.1"]
fn a_cluster_forms_on_8_1() -> Result<()> {
    forms("8.1", "a-cluster-forms-on-8-1")
}

#[test]
fn a_cluster_forms_on_9_1() -> Result<()> {
    forms("9.1", "a-cluster-forms-on-9-1")
}

fn forms(version: &str, name: &str) -> Result<()> {
    scenario(name).run(async |test| {
        let began = Instant::now();
        let cluster = Cluster::create(test, "poc", fields(version, json!({}))).await?;
        cluster.ready().await?;
        measurement::record(test, "from nothing to Ready", began.elapsed())?;
        let topology = sound(&cluster, 3, 1).await?;
        let mut slots: Vec<_> = topology.primaries().iter().map(|node| node.slots).collect();
        slots.sort_unstable();
        ensure!(slots == [5461, 5461, 5462], "slots are dealt out as {slots:?}");
        let pods = cluster.pods().await?;
        are_apart(&topology, &pods)?;
        are_labelled(&topology, &pods)?;
        is_told(&cluster, &topology).await?;
        stopped_whole(loaded(&cluster).await?).await?;
        let warnings = cluster.warnings().await?;
        ensure!(warnings.is_empty(), "warnings: {warnings:?}");
        Ok(())
    })
}

fn are_apart(topology: &Topology, pods: &[Pod]) -> Result<()> {
    let node = |name: &str| pods.iter().find(|pod| pod.name_any() == name)?.spec.as_ref()?.node_name.clone();
    for number in 0..3 {
        let (primary, replica) = topology.shard(number)?;
        let [first, second] = [node(&primary.pod), node(&replica.pod)];
        ensure!(first != second, "{} and its replica {} are both on {first:?}", primary.pod, replica.pod);
    }
    Ok(())
}

pub fn are_labelled(topology: &Topology, pods: &[Pod]) -> Result<()> {
    for pod in pods {
        let replica = topology.of_pod(&pod.name_any())?.primary.is_some();
        let wanted = if replica { names::ROLE_REPLICA } else { names::ROLE_PRIMARY };
        let label = pod.labels().get(names::label::ROLE);
        ensure!(label.is_some_and(|label| label == wanted), "{} is labelled {label:?}, not {wanted}", pod.name_any());
    }
    Ok(())
}

async fn is_told(cluster: &Cluster<'_>, topology: &Topology) -> Result<()> {
    let status = cluster.get().await?.status.context("it has a status")?;
    ensure!(status.shards.len() == 3 && status.orchestration.is_none(), "{status:?}");
    for shard in &status.shards {
        let is_primary = |node: &&ShardNodeStatus| node.role == "primary" && node.state != "lost";
        let primary = shard.nodes.iter().find(is_primary).with_context(|| format!("no primary in {shard:?}"))?;
        let node = topology.of_pod(primary.pod.as_str())?;
        ensure!(node.id == primary.node_id.as_str() && node.primary.is_none(), "{shard:?} is not {node:?}");
        ensure!(shard.nodes.len() == 2, "{shard:?}");
    }
    Ok(())
}
