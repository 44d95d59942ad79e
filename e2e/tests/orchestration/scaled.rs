//! Shards and replicas become fewer and more, in every way there is of asking for it, under load: no acknowledged write is lost, and the
//! pods that are asked for are all that is left.

use crate::formed::{fields, loaded, scenario, stopped_whole};
use anyhow::{Context, Result, ensure};
use api::cluster::ValkeyCluster;
use e2e::{Cluster, Test, Verdict, sound};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;

#[test]
fn every_way_of_asking_for_fewer_pods_moves_their_data_first() -> Result<()> {
    scenario("every-way-of-asking-for-fewer-pods").run(async |test| {
        let cluster = Cluster::create(test, "poc", fields("9.1", json!({"masterCount": 4}))).await?;
        sound(&cluster, 4, 1).await?;
        let load = loaded(&cluster).await?;
        // A primary moves to one of the pods that a smaller number ends.
        cluster.replace_pods([0]).await?;
        sound(&cluster, 4, 1).await?;
        for ask in [masters as Ask, scale, autoscaler] {
            ask(test, &cluster).await?;
            has_become(test, &cluster, 3, 1).await?;
            test.kubectl(&["delete", "hpa", "--all"]).await?.success()?;
            cluster.edit(json!({"masterCount": 4})).await?;
            has_become(test, &cluster, 4, 1).await?;
        }
        cluster.edit(json!({"replicasPerMaster": 0})).await?;
        has_become(test, &cluster, 4, 0).await?;
        cluster.edit(json!({"masterCount": 3, "replicasPerMaster": 1})).await?;
        has_become(test, &cluster, 3, 1).await?;
        stopped_whole(load).await?;
        Ok(())
    })
}

/// Valkey 8.1 moves slots key by key, some thousands of them one after the other: on a busy machine that takes minutes.
#[test]
fn a_shard_is_added_where_slots_move_key_by_key() -> Result<()> {
    scenario("a-shard-is-added-key-by-key").run(async |test| {
        let cluster = Cluster::create(test, "poc", fields("8.1", json!({"masterCount": 3}))).await?;
        sound(&cluster, 3, 1).await?;
        let load = loaded(&cluster).await?;
        cluster.edit(json!({"masterCount": 4})).await?;
        let patience = e2e::PATIENCE * 2;
        test.wait_for_object::<ValkeyCluster, _>("poc", "the slots to have moved", patience, scaled).await?;
        has_become(test, &cluster, 4, 1).await?;
        stopped_whole(load).await?;
        Ok(())
    })
}

fn scaled(seen: Option<&ValkeyCluster>) -> Verdict<()> {
    let status = seen.and_then(|seen| seen.status.as_ref());
    let done = status.is_some_and(|status| status.master_count == 4 && status.orchestration.is_none());
    Verdict::when(done, || status.map(|status| format!("plan: {:?}", status.plan)).unwrap_or_default())
}

/// All that is asked for, and nothing else.
async fn has_become(test: &Test, cluster: &Cluster<'_>, masters: usize, replicas: usize) -> Result<()> {
    sound(cluster, masters, replicas).await?;
    let (size, wanted) = (size(test).await?, masters * (1 + replicas));
    ensure!(usize::try_from(size)? == wanted, "the StatefulSet has {size} pods for {masters} x {replicas}");
    Ok(())
}

type Asked<'f> = std::pin::Pin<Box<dyn Future<Output = Result<()>> + 'f>>;
type Ask = for<'f> fn(&'f Test, &'f Cluster<'f>) -> Asked<'f>;

fn masters<'f>(_: &'f Test, cluster: &'f Cluster<'f>) -> Asked<'f> {
    Box::pin(async { cluster.edit(json!({"masterCount": 3})).await.map(drop) })
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
