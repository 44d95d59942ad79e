//! Two replicas of the operator: sidecars are with the one that leads, and follow the lead within seconds.

use crate::connected::{all_connected, connections, metric, operator_pods};
use anyhow::{Context, Result, ensure};
use api::names::annotation;
use e2e::{Cluster, Scenario, Test, Verdict, measurement, operator, test::PATIENCE, wait_for_object};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::Api;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn sidecars_follow_the_lead() -> Result<()> {
    let scenario = Scenario::named("sidecars-follow-the-lead").timeout(Duration::from_secs(240));
    scenario.alone("it scales and restarts the operator that all other tests need").run(async |test| {
        let cluster = Cluster::create(test, "poc", json!({})).await?;
        all_connected(&cluster, 3).await?;
        scale(test, 2).await?;
        let outcome = moved(test, &cluster).await;
        scale(test, 1).await?;
        outcome
    })
}

async fn moved(test: &Test, cluster: &Cluster<'_>) -> Result<()> {
    let (leader, epoch) = led(test, None).await?;
    connections(test, &leader, 3).await?;
    let pods = Api::<Pod>::namespaced(test.client(), &operator::namespace());
    pods.delete(&leader, &Default::default()).await.context("delete the leader")?;
    let began = Instant::now();
    let (next, higher) = led(test, Some(&leader)).await?;
    measurement::record(test, "another leader after the first was deleted", began.elapsed())?;
    connections(test, &next, 3).await?;
    measurement::record(test, "sidecars with the next leader", began.elapsed())?;
    ensure!(higher > epoch, "the term went from {epoch} to {higher}");
    all_connected(cluster, 3).await?;
    let follower = operator_pods(test).await?.into_iter().find(|pod| *pod != next).context("there is a second pod")?;
    let streams = metric(test, &next, "leader ").await?;
    ensure!(streams == 1.0, "{next} does not lead");
    test.wait_for("the other replica to have no sidecar", PATIENCE, async || {
        let open = metric(test, &follower, "line_connections ").await.unwrap_or(1.0);
        Ok(Verdict::when(open == 0.0, || format!("{open} connections to {follower}")))
    })
    .await
}

/// The pod that leads, other than `not`, and its term. Its address must be in the Lease.
async fn led(test: &Test, not: Option<&str>) -> Result<(String, u64)> {
    let leases = Api::<Lease>::namespaced(test.client(), &operator::namespace());
    let found = wait_for_object(leases, operator::NAME, "a leader", PATIENCE, |lease| {
        let read = |lease: &Lease| {
            let holder = lease.spec.as_ref()?.holder_identity.as_deref()?.rsplit_once('_')?.0.to_owned();
            let annotations = lease.metadata.annotations.as_ref()?;
            annotations.get(annotation::LINE_ADDRESS).filter(|address| address.ends_with(":8443"))?;
            Some((holder, annotations.get(annotation::EPOCH)?.parse::<u64>().ok()?))
        };
        let found = lease.and_then(read).filter(|(holder, _)| not != Some(holder.as_str()));
        found.map_or_else(|| Verdict::NotYet(format!("{lease:?}")), Verdict::Met)
    });
    Ok(found.await?)
}

async fn scale(test: &Test, replicas: usize) -> Result<()> {
    let (name, count) = (format!("deployment/{}", operator::NAME), format!("--replicas={replicas}"));
    test.kubectl(&["scale", &name, &count, "--namespace", &operator::namespace()]).await?.success()?;
    let what = format!("{replicas} pods of the operator");
    test.wait_for(&what, PATIENCE, async || {
        let path = ["get", &name, "--namespace", &operator::namespace(), "-o", "jsonpath={.status.readyReplicas}"];
        let ready = test.kubectl(&path).await?.success()?;
        let pods = operator_pods(test).await?.len();
        Ok(Verdict::when(ready == replicas.to_string() && pods == replicas, || format!("{ready} of {pods} are ready")))
    })
    .await
}
