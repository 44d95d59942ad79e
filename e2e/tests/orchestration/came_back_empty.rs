//! A primary that comes back without its data, faster than anybody could notice that it was away: what its replica has wins, always.

use crate::formed::{formed, loaded_twice, on_volumes, promoted, scenario, stopped_whole};
use anyhow::{Context, Result, ensure};
use api::names;
use e2e::{
    Cluster, sound,
    view::{follows, topology},
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::json;

#[test]
fn a_primary_that_comes_back_empty_never_empties_its_replicas() -> Result<()> {
    scenario("a-primary-that-comes-back-empty-empties-nobody").run(async |test| {
        let cluster = formed(test, "poc", "9.1", json!({})).await?;
        let load = loaded_twice(&cluster).await?;
        for number in 0..2 {
            let (victim, heir) = topology(&cluster).await?.shard(number)?;
            test.kill_pod(&victim.pod, Some("valkey")).await?;
            promoted(&cluster, &heir.pod).await?;
            let healed = sound(&cluster, 3, 1).await?;
            follows(&healed, &victim.pod, &heir.pod)?;
            let node = healed.of_pod(&victim.pod)?;
            ensure!(node.id == victim.id, "with its node configuration kept it is the same node");
        }
        stopped_whole(load).await?;
        Ok(())
    })
}

#[test]
fn a_primary_with_an_emptied_volume_comes_back_as_a_replica() -> Result<()> {
    scenario("a-primary-with-an-emptied-volume-is-a-replica").run(async |test| {
        let cluster = formed(test, "poc", "8.1", on_volumes()).await?;
        let load = loaded_twice(&cluster).await?;

        let (wiped, heir) = topology(&cluster).await?.shard(0)?;
        let wipe = ["sh", "-c", "rm -rf /data/* && ls -A /data"];
        let left = test.exec_in(&wiped.pod, "valkey", &wipe).await?.success()?;
        test.note(format!("left on the volume: {left:?}"));
        test.kill_pod(&wiped.pod, Some("valkey")).await?;
        promoted(&cluster, &heir.pod).await?;
        follows(&sound(&cluster, 3, 1).await?, &wiped.pod, &heir.pod)?;

        let (replaced, heir) = topology(&cluster).await?.shard(1)?;
        replace_volume(&cluster, &replaced.pod).await?;
        promoted(&cluster, &heir.pod).await?;
        follows(&sound(&cluster, 3, 1).await?, &replaced.pod, &heir.pod)?;
        stopped_whole(load).await?;
        Ok(())
    })
}

#[test]
fn a_shard_whose_only_copy_is_gone_is_made_anew_and_taken_in() -> Result<()> {
    scenario("a-shard-whose-only-copy-is-gone-is-made-anew").run(async |test| {
        let cluster = Cluster::create(test, "poc", json!({"masterCount": 3, "replicasPerMaster": 0})).await?;
        let lost = sound(&cluster, 3, 0).await?.of_pod(&cluster.pod(1))?.clone();
        cluster.replace_pods([1]).await?;
        let after = sound(&cluster, 3, 0).await?;
        let made = after.of_pod(&lost.pod)?;
        ensure!(made.id != lost.id && made.slots == lost.slots, "it has what was lost: {made:?}");
        Ok(())
    })
}

/// The claim goes when its pod does, and the StatefulSet makes another.
async fn replace_volume(cluster: &Cluster<'_>, pod: &str) -> Result<()> {
    let ordinal: u32 = pod.rsplit('-').next().unwrap_or_default().parse().context("a pod's name ends with a number")?;
    let claim = names::volume_claim(&cluster.name, ordinal);
    cluster.test.note(format!("delete {claim} and {pod}"));
    let _ending = cluster.test.api::<PersistentVolumeClaim>().delete(&claim, &Default::default()).await?;
    let _ending = cluster.test.api::<Pod>().delete(pod, &Default::default()).await?;
    Ok(())
}
