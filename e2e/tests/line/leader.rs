//! Two replicas of the operator: sidecars are with the one that leads, and follow the lead within seconds.

use crate::connected::{all_connected, connections, metric};
use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, Scenario, Test, Verdict, measurement,
    replicas::{delete, leader, operator_pods, scale},
    test::PATIENCE,
};
use serde_json::json;
use std::time::Instant;

#[test]
fn sidecars_follow_the_lead() -> Result<()> {
    let scenario = Scenario::named("sidecars-follow-the-lead");
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
    let (first, epoch) = leader(test, None).await?;
    connections(test, &first, 3).await?;
    delete(test, &first).await?;
    let began = Instant::now();
    let (next, higher) = leader(test, Some(&first)).await?;
    measurement::record(test, "another leader after the first was deleted", began.elapsed())?;
    connections(test, &next, 3).await?;
    measurement::record(test, "sidecars with the next leader", began.elapsed())?;
    ensure!(higher > epoch, "the term went from {epoch} to {higher}");
    all_connected(cluster, 3).await?;
    let follower = operator_pods(test).await?.into_iter().find(|pod| *pod != next).context("there is a second pod")?;
    let streams = metric(test, &next, "leader ").await?;
    ensure!(streams == 1.0, "{next} does not lead");
    tells_of_the_cluster(test, &next, &follower).await?;
    test.wait_for("the other replica to have no sidecar", PATIENCE, async || {
        let open = metric(test, &follower, "line_connections ").await.unwrap_or(1.0);
        Ok(Verdict::when(open == 0.0, || format!("{open} connections to {follower}")))
    })
    .await
}

/// The leader does, the other replica says nothing of any cluster, and both say which version they are.
async fn tells_of_the_cluster(test: &Test, leader: &str, follower: &str) -> Result<()> {
    let labels = format!("namespace=\"{}\",name=\"poc\"", test.namespace);
    let connected = format!("cluster_condition{{{labels},type=\"SidecarsConnected\",status=\"True\"}}");
    let leaf = format!("cluster_certificate_expiration_timestamp_seconds{{{labels},certificate=\"leaf\"}}");
    test.wait_for("the leader to tell of the cluster and of certificates", PATIENCE, async || {
        let (is, ends) = (metric(test, leader, &connected).await?, metric(test, leader, &leaf).await?);
        let root = metric(test, leader, "certificate_expiration_timestamp_seconds{certificate=\"root\"}").await?;
        Ok(Verdict::when(is == 1.0 && root > ends && ends > 0.0, || format!("{is}, root {root}, leaf {ends}")))
    })
    .await?;
    let told = metric(test, follower, "cluster_condition").await?;
    ensure!(told == 0.0, "{follower} does not lead and tells of clusters");
    for pod in [leader, follower] {
        ensure!(metric(test, pod, "build_info").await? == 1.0, "{pod} does not say its version");
    }
    Ok(())
}
