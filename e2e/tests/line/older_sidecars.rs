//! The operator is upgraded and its sidecars are not: an older build of them comes back to the new operator, is shown with its version,
//! obeys, and fails over when a primary dies.

use crate::connected::{all_connected, connections, since};
use anyhow::{Context, Result, ensure};
use api::cluster::PodStatus;
use e2e::{
    Cluster, ClusterLoad, PATIENCE, Scenario, Test, Verdict, cluster::lives, load::REACH, operator,
    replicas::operator_pods, sound, view,
};
use load::Options;
use serde_json::{Value, json};

const IMAGE: &str = "ghcr.io/valkey-operator/sidecar";
/// What `images/build sidecar-older` makes.
const OLDER: &str = "0.0.9";
const PODS: usize = 6;

#[test]
fn older_sidecars_outlive_an_upgrade_of_the_operator_and_still_fail_over() -> Result<()> {
    let scenario = Scenario::named("older-sidecars-outlive-an-upgrade");
    let scenario = scenario.alone("it replaces the operator that all other tests need").needs_testbed(REACH);
    scenario.run(async |test| {
        let cluster = Cluster::create(test, "poc", fields()).await?;
        let formed = sound(&cluster, 3, 1).await;
        formed.with_context(|| format!("is {IMAGE}:v{OLDER} on the nodes? e2e/README.md says how it gets there"))?;
        all_are_older(&all_connected(&cluster, PODS).await?)?;
        upgraded(test, &cluster).await?;
        fails_over(test, &cluster).await?;
        all_are_older(&all_connected(&cluster, PODS).await?)
    })
}

fn fields() -> Value {
    json!({"replicasPerMaster": 1, "sidecarImage": {"name": IMAGE, "tag": format!("v{OLDER}")}})
}

fn all_are_older(pods: &[PodStatus]) -> Result<()> {
    let other = pods.iter().find(|pod| pod.sidecar_version.as_deref() != Some(OLDER));
    ensure!(other.is_none(), "not the older sidecar: {other:?}");
    Ok(())
}

/// Other pods of the operator take over; the cluster's own notice nothing.
async fn upgraded(test: &Test, cluster: &Cluster<'_>) -> Result<()> {
    let (before, lived) = (cluster.get().await?, lives(&cluster.pods().await?));
    let next = replace_operator(test).await?;
    connections(test, &next, PODS).await?;
    all_are_older(&all_connected(cluster, PODS).await?)?;
    sound(cluster, 3, 1).await?;
    ensure!(since(&cluster.get().await?) == since(&before), "the sidecars were missed although they came back in time");
    ensure!(lives(&cluster.pods().await?) == lived, "a pod was restarted");
    Ok(())
}

/// A rollout of the Deployment, as an upgrade with Helm is one; gives the pod that is there afterwards.
async fn replace_operator(test: &Test) -> Result<String> {
    let before = operator_pods(test).await?;
    let (name, namespace) = (format!("deployment/{}", operator::NAME), operator::namespace());
    test.kubectl(&["rollout", "restart", &name, "--namespace", &namespace]).await?.success()?;
    test.kubectl(&["rollout", "status", &name, "--namespace", &namespace, "--timeout=180s"]).await?.success()?;
    test.wait_for("only new pods of the operator", PATIENCE, async || {
        let pods = operator_pods(test).await?;
        let replaced = pods.iter().all(|pod| !before.contains(pod));
        let newest = pods.first().filter(|_| replaced).cloned();
        Ok(newest.map_or_else(|| Verdict::NotYet(format!("{pods:?}")), Verdict::Met))
    })
    .await
}

/// A replica is promoted, and the operator lets the dead primary back in through its gate.
async fn fails_over(test: &Test, cluster: &Cluster<'_>) -> Result<()> {
    let (victim, heir) = view::topology(cluster).await?.shard(1)?;
    let load = ClusterLoad::start_with(cluster, |options| Options { replicas: 1, rate: 150, ..options }).await?;
    load.acknowledges(200).await?;
    test.kill_pod(&victim.pod, Some("valkey")).await?;
    test.wait_for("the replica to lead its shard", PATIENCE, async || {
        let found = view::topology(cluster).await.and_then(|topology| view::follows(&topology, &victim.pod, &heir.pod));
        Ok(found.map_or_else(|error| Verdict::NotYet(format!("{error:#}")), Verdict::Met))
    })
    .await?;
    sound(cluster, 3, 1).await?;
    load.flows().await?;
    load.stop_sound().await?;
    Ok(())
}
