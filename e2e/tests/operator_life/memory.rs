//! What others keep in the cluster costs the operator nothing. What it costs by itself: `bench/memory`.

use anyhow::{Context, Result};
use e2e::{
    Scenario, Test, Verdict,
    operator::{self, StoppedOperator},
    process,
    test::PATIENCE,
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Api,
    api::{ListParams, ObjectMeta, PostParams},
};
use std::collections::BTreeMap;

/// Twenty megabytes: an operator that keeps them cannot hide it.
const FOREIGN: usize = 1000;
const BYTES: usize = 20_000;
const LIMIT_KIBIBYTES: u64 = 5 * 1024;

#[test]
fn an_operator_without_clusters_stays_small_whatever_others_keep() -> Result<()> {
    let scenario = Scenario::named("an-operator-without-clusters-stays-small");
    scenario.alone("it restarts the operator that all other tests need").run(async |test| {
        no_cluster_is_left(test).await?;
        StoppedOperator::stop(test).await?.start().await?;
        let before = resident(test).await?;
        fill(test).await?;
        StoppedOperator::stop(test).await?.start().await?;
        let after = resident(test).await?;
        test.note(format!("{before} KiB resident, {after} KiB beside {FOREIGN} foreign objects"));
        assert!(after <= before + LIMIT_KIBIBYTES, "it grew from {before} to {after} KiB");
        Ok(())
    })
}

/// Half ConfigMaps, half Secrets.
async fn fill(test: &Test) -> Result<()> {
    let (maps, secrets) = (test.api::<ConfigMap>(), test.api::<Secret>());
    let data = BTreeMap::from([("text".to_owned(), "x".repeat(BYTES))]);
    let make = async |number: usize| -> Result<()> {
        let metadata = ObjectMeta { name: Some(format!("foreign-{number}")), ..ObjectMeta::default() };
        let parameters = PostParams::default();
        if number.is_multiple_of(2) {
            let map = ConfigMap { metadata, data: Some(data.clone()), ..ConfigMap::default() };
            maps.create(&parameters, &map).await?;
        } else {
            let secret = Secret { metadata, string_data: Some(data.clone()), ..Secret::default() };
            secrets.create(&parameters, &secret).await?;
        }
        Ok(())
    };
    stream::iter(0..FOREIGN).map(make).buffer_unordered(32).try_collect::<()>().await
}

/// Namespaces of earlier tests take their time to go.
async fn no_cluster_is_left(test: &Test) -> Result<()> {
    let clusters = Api::<api::cluster::ValkeyCluster>::all(test.client());
    test.wait_for("all ValkeyClusters to be gone", PATIENCE, async || {
        let left = clusters.list(&ListParams::default()).await?.items.len();
        Ok(Verdict::when(left == 0, || format!("{left} are left")))
    })
    .await
}

/// Resident memory of the leader, once it has listed everything.
async fn resident(test: &Test) -> Result<u64> {
    let namespace = operator::namespace();
    let pods = Api::<Pod>::namespaced(test.client(), &namespace);
    let selection = ListParams::default().labels("app.kubernetes.io/component=operator");
    test.wait_for("the operator to watch", PATIENCE, async || {
        let pod = pods.list(&selection).await?.items.pop().context("the operator has a pod")?;
        let log = pods.logs(pod.metadata.name.as_deref().unwrap_or_default(), &Default::default()).await?;
        if !log.contains("\"message\":\"watching\"") {
            return Ok(Verdict::NotYet(log));
        }
        Ok(Verdict::Met(process::resident_kibibytes(&pod, "operator")?))
    })
    .await
}
