//! The spec asks for fewer pods than the cluster has, in every way there is: all keep their slots and their keys until somebody can
//! move them, and the status says so.

use crate::formed::{fields, loaded, scenario, stopped_whole};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Test, sound, view::topology};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;

const SHARDS: usize = 4;

#[test]
fn no_way_of_asking_for_fewer_pods_ends_one_that_holds_data() -> Result<()> {
    scenario("no-way-of-asking-for-fewer-pods-ends-one").run(async |test| {
        let cluster = Cluster::create(test, "poc", fields("9.1", json!({"masterCount": SHARDS}))).await?;
        sound(&cluster, SHARDS, 1).await?;
        let load = loaded(&cluster).await?;
        // The primaries move to the pods that a smaller number would end.
        for ordinal in 0..2 {
            cluster.replace_pods([ordinal]).await?;
            sound(&cluster, SHARDS, 1).await?;
        }
        let before = topology(&cluster).await?;
        for ask in [masters as Ask, replicas, scale, autoscaler] {
            ask(test, &cluster).await?;
            let told = cluster.says("Degraded", "True", Some("NotSupportedYet")).await?;
            ensure!(told.message.contains("not supported yet"), "{}", told.message);
            cluster.says("SlotsCovered", "True", None).await?;
            ensure!(size(test).await? == 8, "the StatefulSet became smaller");
            test.kubectl(&["delete", "hpa", "--all"]).await?.success()?;
            cluster.edit(json!({"masterCount": SHARDS, "replicasPerMaster": 1})).await?;
            cluster.ready().await?;
        }
        let after = topology(&cluster).await?;
        for node in &before.nodes {
            ensure!(after.of_pod(&node.pod)?.id == node.id, "{} became another node: {after:?}", node.pod);
        }
        stopped_whole(load).await?;
        Ok(())
    })
}

type Asked<'f> = std::pin::Pin<Box<dyn Future<Output = Result<()>> + 'f>>;
type Ask = for<'f> fn(&'f Test, &'f Cluster<'f>) -> Asked<'f>;

fn masters<'f>(_: &'f Test, cluster: &'f Cluster<'f>) -> Asked<'f> {
    Box::pin(async { cluster.edit(json!({"masterCount": 3})).await.map(drop) })
}

fn replicas<'f>(_: &'f Test, cluster: &'f Cluster<'f>) -> Asked<'f> {
    Box::pin(async { cluster.edit(json!({"replicasPerMaster": 0})).await.map(drop) })
}

fn scale<'f>(test: &'f Test, _: &'f Cluster<'f>) -> Asked<'f> {
    Box::pin(async { test.kubectl(&["scale", "vc/poc", "--replicas=3"]).await?.success().map(drop) })
}

/// An HPA whose maximum is below what there is lowers the number without asking for any metric.
fn autoscaler<'f>(test: &'f Test, _: &'f Cluster<'f>) -> Asked<'f> {
    let hpa = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "poc"},
        "spec": {"minReplicas": 3, "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "name": "poc"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]},
    });
    Box::pin(async move { test.apply_yaml(&hpa.to_string()).await.context("make the HPA").map(drop) })
}

async fn size(test: &Test) -> Result<i32> {
    let stateful_set = test.api::<StatefulSet>().get("poc").await.context("read the StatefulSet")?;
    Ok(stateful_set.spec.and_then(|spec| spec.replicas).unwrap_or_default())
}
