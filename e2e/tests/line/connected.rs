//! What the status says of sidecars, and what the other tests ask of it.

use anyhow::{Context, Result, ensure};
use api::cluster::{PodStatus, ValkeyCluster};
use e2e::{Cluster, PATIENCE, Test, Verdict, cluster, operator};

/// Waits until all sidecars are connected, and checks what is said of each pod.
pub async fn all_connected(cluster: &Cluster<'_>, pods: usize) -> Result<Vec<PodStatus>> {
    cluster.says("SidecarsConnected", "True", Some("AllSidecarsConnected")).await?;
    let status = cluster.get().await?.status.context("it has a status")?;
    ensure!(status.sidecars == Some(format!("{pods}/{pods}")), "{:?}", status.sidecars);
    ensure!(status.pods.len() == pods, "{:?}", status.pods);
    for pod in &status.pods {
        let complete = pod.connected && pod.last_heartbeat.is_some() && pod.certificate_expires.is_some();
        ensure!(complete && pod.sidecar_version.is_some(), "{pod:?}");
    }
    Ok(status.pods)
}

/// When the condition last changed its status.
pub fn since(cluster: &ValkeyCluster) -> String {
    let found = cluster::condition(cluster, "SidecarsConnected");
    found.map(|condition| condition.last_transition_time.0.to_string()).unwrap_or_default()
}

/// One of the operator's metrics, as a pod of it shows; the sum when it has labels.
pub async fn metric(test: &Test, pod: &str, name: &str) -> Result<f64> {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}:8080/proxy/metrics", operator::namespace());
    let page = test.kubectl(&["get", "--raw", &path]).await?.success()?;
    let values = page.lines().filter(|line| line.starts_with(&format!("valkey_operator_{name}")));
    values.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?)).sum()
}

/// Waits until this many sidecars are connected to that pod of the operator.
pub async fn connections(test: &Test, pod: &str, at_least: usize) -> Result<()> {
    let what = format!("{at_least} connections to {pod}");
    test.wait_for(&what, PATIENCE, async || {
        let open = metric(test, pod, "line_connections ").await.unwrap_or_default();
        Ok(Verdict::when(open >= at_least as f64, || format!("{open} are open")))
    })
    .await
}
