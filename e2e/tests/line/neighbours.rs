//! Two clusters of one name in two namespaces, each with its own identity, both connected.

use crate::connected::all_connected;
use anyhow::{Context, Result, ensure};
use api::{cluster::ValkeyCluster, names};
use e2e::{Cluster, Scenario, Test, Verdict, cluster, namespace, wait_for_object};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::PostParams};
use serde_json::json;

#[test]
fn two_clusters_of_one_name_in_two_namespaces_are_connected() -> Result<()> {
    let scenario = Scenario::named("two-clusters-of-one-name-are-connected");
    scenario.run(async |test| {
        let other = namespace::create(&test.client(), "two-clusters-the-other", "restricted").await?;
        let outcome = both(test, &other).await;
        namespace::delete(&test.client(), &other).await?;
        outcome
    })
}

async fn both(test: &Test, other: &str) -> Result<()> {
    let here = Cluster::create(test, "poc", json!({})).await?;
    let elsewhere = Api::<ValkeyCluster>::namespaced(test.client(), other);
    let object = serde_json::from_value(json!({ "apiVersion": names::API_VERSION, "kind": names::KIND,
        "metadata": { "name": "poc" }, "spec": cluster::small() }))?;
    elsewhere.create(&PostParams::default(), &object).await.context("create the other cluster")?;
    all_connected(&here, 3).await?;
    wait_for_object(elsewhere, "poc", "the other cluster's sidecars", e2e::PATIENCE, |cluster| {
        let said = cluster.and_then(|cluster| cluster::condition(cluster, "SidecarsConnected"));
        let connected = said.is_some_and(|condition| condition.status == "True");
        Verdict::when(connected, || format!("{said:?}"))
    })
    .await?;
    let [mine, theirs] = [leaf(test, &test.namespace).await?, leaf(test, other).await?];
    ensure!(mine != theirs, "both clusters show the same certificate");
    Ok(())
}

async fn leaf(test: &Test, namespace: &str) -> Result<Vec<u8>> {
    let secrets = Api::<Secret>::namespaced(test.client(), namespace);
    let secret = secrets.get(&names::mtls_secret("poc")).await.context("read the identity")?;
    let data = secret.data.context("it has data")?;
    Ok(data.get("tls.crt").context("it has a certificate")?.0.clone())
}
