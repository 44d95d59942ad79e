//! Somebody scales the StatefulSet by hand: the operator sets it right at once, nothing foreign joins and nothing is lost.

use crate::formed::{formed, loaded_twice, on_volumes, scenario};
use anyhow::{Result, ensure};
use e2e::{Cluster, Verdict, sound, view::topology};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};

#[test]
fn a_statefulset_scaled_by_hand_is_set_right_and_nothing_is_lost() -> Result<()> {
    scenario("a-statefulset-scaled-by-hand-is-set-right").run(async |test| {
        let cluster = formed(test, "poc", "9.1", on_volumes()).await?;
        let before = topology(&cluster).await?;
        let load = loaded_twice(&cluster).await?;
        for replicas in ["8", "4", "0"] {
            test.kubectl(&["scale", "statefulset/poc", &format!("--replicas={replicas}")]).await?.success()?;
            six_pods_again(&cluster).await?;
            let after = sound(&cluster, 3, 1).await?;
            for node in &before.nodes {
                ensure!(after.of_pod(&node.pod)?.id == node.id, "{} became another node: {after:?}", node.pod);
            }
            load.flows().await?;
        }
        load.stop_sound().await?;
        Ok(())
    })
}

/// Its controller has seen the size that the operator set, and pods that were one too many are gone, not only on their way out.
async fn six_pods_again(cluster: &Cluster<'_>) -> Result<()> {
    let test = cluster.test;
    test.wait_for_object("poc", "a StatefulSet of six", e2e::PATIENCE, |set: Option<&StatefulSet>| {
        let asked = set.and_then(|set| set.spec.as_ref()).and_then(|spec| spec.replicas);
        let status = set.and_then(|set| set.status.as_ref());
        let there = status.map(|status| status.replicas);
        let seen = set.and_then(|set| set.metadata.generation) == status.and_then(|status| status.observed_generation);
        let what = || format!("{asked:?} asked for, {there:?} there; seen by its controller: {seen}");
        Verdict::when(asked == Some(6) && there == Some(6) && seen, what)
    })
    .await?;
    test.wait_for_list(&cluster.selector(), "six pods", e2e::PATIENCE, |pods: &[Pod]| {
        let ending = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
        Verdict::when(pods.len() == 6 && ending == 0, || format!("{}, of which {ending} are ending", pods.len()))
    })
    .await
}
