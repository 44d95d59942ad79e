//! One pod that never starts: it is named with what it lacks, and as soon as that is there the cluster is whole.

use crate::formed::{fields, loaded, on_volumes, scenario, stopped_whole};
use anyhow::{Context, Result, ensure};
use api::names;
use e2e::{Cluster, sound, workload};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

#[test]
fn a_pod_that_never_starts_is_named_and_awaited() -> Result<()> {
    scenario("a-pod-that-never-starts-is-named-and-awaited").run(async |test| {
        let name = names::volume_claim("poc", 5);
        let mut claim = workload::claim(&name, "300Mi");
        claim.spec.as_mut().context("a claim has a spec")?.storage_class_name = Some("nowhere".to_owned());
        // Without them it is somebody else's, and nothing is made beside it.
        claim.metadata.labels = Some(names::selector("poc"));
        test.apply(&claim).await?;
        let cluster = Cluster::create(test, "poc", fields("9.1", on_volumes())).await?;
        let degraded = cluster.says("Degraded", "True", None).await?;
        ensure!(degraded.message.contains("poc-5"), "{} {}", degraded.reason, degraded.message);
        cluster.says("Ready", "False", None).await?;
        test.note("the claim that nobody fills goes");
        let _ending = test.api::<PersistentVolumeClaim>().delete(&name, &Default::default()).await?;
        let _ending = test.api::<k8s_openapi::api::core::v1::Pod>().delete("poc-5", &Default::default()).await?;
        sound(&cluster, 3, 1).await?;
        stopped_whole(loaded(&cluster).await?).await?;
        Ok(())
    })
}
