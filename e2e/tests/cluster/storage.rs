//! Volumes: data and identity outlive the pod, volumes grow under running pods, and never shrink.

use anyhow::{Result, bail};
use e2e::{Cluster, Scenario, Verdict, cluster, measurement};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::PersistentVolumeClaim};
use serde_json::json;
use std::time::Instant;

#[test]
fn a_pod_with_a_volume_keeps_data_and_identity() -> Result<()> {
    Scenario::named("a-pod-with-a-volume-keeps-data-and-identity").run(async |test| {
        let storage = json!({"pvc": {"storageSize": "300Mi"}, "backup": {"aof": {"enabled": true}}});
        let kept = Cluster::create(test, "kept", storage).await?;
        kept.ready().await?;
        kept.runs_with(3, &[("appendonly", "yes")]).await?;
        let id = kept.node_id(0).await?;
        let key = written_to_the_first(&kept).await?;
        kept.replace_pods([0]).await?;
        assert_eq!(kept.node_id(0).await?, id, "the node came back as another");
        serves(&kept).await?;
        assert_eq!(kept.cli(0, &["get", &key]).await?, "value");
        kept.ready().await.map(drop)
    })
}

/// A key of a slot that the first pod serves.
async fn written_to_the_first(kept: &Cluster<'_>) -> Result<String> {
    for number in 0..100 {
        let key = format!("key-{number}");
        if kept.cli(0, &["set", &key, "value"]).await? == "OK" {
            return Ok(key);
        }
    }
    bail!("the first pod takes none of a hundred keys")
}

async fn serves(kept: &Cluster<'_>) -> Result<()> {
    kept.test
        .wait_for("the node to serve", e2e::PATIENCE, async || {
            let info = kept.cli(0, &["cluster", "info"]).await?;
            Ok(Verdict::when(info.contains("cluster_state:ok"), || info))
        })
        .await
}

#[test]
fn volumes_grow_under_running_pods_and_never_shrink() -> Result<()> {
    Scenario::named("volumes-grow-under-running-pods").run(async |test| {
        let grown = Cluster::create(test, "grown", json!({"pvc": {"storageSize": "300Mi"}})).await?;
        grown.ready().await?;
        let (lives, small) = (cluster::lives(&grown.pods().await?), size_of(&grown, 0).await?);
        grown.edit(json!({"pvc": {"storageSize": "400Mi"}})).await?;
        let started = Instant::now();
        test.wait_for_list::<PersistentVolumeClaim, _>(
            &grown.selector(),
            "all claims to have 400Mi",
            e2e::PATIENCE,
            |claims| {
                let sizes: Vec<_> = claims.iter().map(capacity).collect();
                Verdict::when(sizes.len() == 3 && sizes.iter().all(|size| size == "400Mi"), || format!("{sizes:?}"))
            },
        )
        .await?;
        measurement::record(test, "three volumes grown", started.elapsed())?;
        for ordinal in 0..3 {
            let large = size_of(&grown, ordinal).await?;
            assert!(large >= small + 90, "pod {ordinal} had {small} MiB and has {large}");
        }
        test.wait_for_object::<StatefulSet, _>("grown", "the template to follow", e2e::PATIENCE, |stateful_set| {
            let size = stateful_set.and_then(template_size);
            Verdict::when(size.as_deref() == Some("400Mi"), || format!("it says {size:?}"))
        })
        .await?;
        grown.ready().await?;
        assert_eq!(cluster::lives(&grown.pods().await?), lives, "growing restarted something");
        let refused =
            grown.try_edit(json!({"pvc": {"storageSize": "300Mi"}})).await.expect_err("volumes cannot shrink");
        assert!(refused.to_string().contains("storageSize cannot shrink"), "{refused}");
        Ok(())
    })
}

fn capacity(claim: &PersistentVolumeClaim) -> String {
    let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage"));
    capacity.map(|size| size.0.clone()).unwrap_or_default()
}

fn template_size(stateful_set: &StatefulSet) -> Option<String> {
    let template = stateful_set.spec.as_ref()?.volume_claim_templates.as_ref()?.first()?;
    let requests = template.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    Some(requests.get("storage")?.0.clone())
}

async fn size_of(cluster: &Cluster<'_>, ordinal: u32) -> Result<u64> {
    let script = "df --block-size=1M --output=size /data | tail -n 1";
    let output = cluster.test.exec_in(&cluster.pod(ordinal), "valkey", &["sh", "-c", script]).await?.success()?;
    Ok(output.trim().parse()?)
}
