//! A primary's pod is deleted: before it ends it hands over, so that nothing that was acknowledged by it alone is lost.

use crate::formed::{formed, loaded, promoted, scenario, stopped_whole};
use anyhow::{Context, Result, ensure};
use e2e::{Verdict, sound, view::topology};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

#[test]
fn a_terminating_primary_hands_over_and_loses_no_write_on_8_1() -> Result<()> {
    hands_over("8.1", "a-terminating-primary-hands-over-on-8-1")
}

#[test]
fn a_terminating_primary_hands_over_and_loses_no_write_on_9_1() -> Result<()> {
    hands_over("9.1", "a-terminating-primary-hands-over-on-9-1")
}

fn hands_over(version: &str, name: &str) -> Result<()> {
    scenario(name).run(async |test| {
        let cluster = formed(test, "poc", version, json!({})).await?;
        let before = topology(&cluster).await?;
        let (leaving, heir) = before.shard(2)?;
        let load = loaded(&cluster).await?;
        let uid = test.api::<Pod>().get(&leaving.pod).await.context("read the pod")?.uid();
        test.note(format!("delete {}", leaving.pod));
        let _ending = test.api::<Pod>().delete(&leaving.pod, &Default::default()).await.context("delete the pod")?;
        promoted(&cluster, &heir.pod).await?;
        // One that is ending still answers, and as a replica it spoils nothing.
        test.wait_for_object(&leaving.pod, "another pod in its place", e2e::PATIENCE, |pod: Option<&Pod>| {
            let found = pod.and_then(|pod| pod.uid());
            Verdict::when(found.is_some() && found != uid, || format!("{found:?}"))
        })
        .await?;
        let after = sound(&cluster, 3, 1).await?;
        let newcomer = after.of_pod(&leaving.pod)?;
        ensure!(newcomer.id != leaving.id, "a pod without a volume came back as the same node");
        ensure!(newcomer.primary.as_ref() == Some(&heir.id), "the new pod does not replace the old one: {after:?}");
        // Its own word was enough for a write: one that it did not hand over would be missing.
        stopped_whole(load).await?;
        Ok(())
    })
}
