//! The production example, as it is committed: it comes up, spread, on volumes, with what it asks for really in force.

use anyhow::{Context, Result};
use api::names;
use e2e::{Cluster, Scenario, Test, operator};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use std::{collections::BTreeMap, fs, path::Path};

#[test]
fn the_production_example_comes_up_as_it_says() -> Result<()> {
    Scenario::named("the-production-example").run(async |test| {
        operator::require(test).await?;
        test.apply_yaml(&example()?).await?;
        let production = Cluster::named(test, "production");
        production.ready().await?;
        no_node_has_two_pods_more_than_another(&production).await?;
        nine_volumes(test).await?;
        let headroom = "805306368"; // three quarters of the limit of 1 GiB
        let wanted = [
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("maxmemory", headroom),
            ("maxmemory-policy", "noeviction"),
        ];
        production.runs_with(9, &wanted).await?;
        test.api::<Service>().get(&names::read_service("production")).await.context("there is no read Service")?;
        metrics(test, &production).await
    })
}

/// The example names an exact version; the testbed has the newest of that line.
fn example() -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/production.yaml");
    let text = fs::read_to_string(path)?;
    let (before, tag) = text.split_once("tag: \"").context("the example names no tag")?;
    let (version, after) = tag.split_once('"').context("the tag does not end")?;
    let (line, _patch) = version.rsplit_once('.').context("the tag is no exact version")?;
    Ok(format!("{before}tag: \"{line}\"{after}"))
}

async fn no_node_has_two_pods_more_than_another(cluster: &Cluster<'_>) -> Result<()> {
    let mut by_node = BTreeMap::<String, usize>::new();
    for pod in cluster.pods().await? {
        *by_node.entry(pod.spec.and_then(|spec| spec.node_name).unwrap_or_default()).or_default() += 1;
    }
    let (most, least) = (by_node.values().max().copied(), by_node.values().min().copied());
    assert!(most.unwrap_or(0) - least.unwrap_or(0) < 2, "{by_node:?}");
    assert_eq!(by_node.values().sum::<usize>(), 9);
    Ok(())
}

async fn nine_volumes(test: &Test) -> Result<()> {
    let claims = test.api::<PersistentVolumeClaim>().list(&Default::default()).await.context("list the claims")?.items;
    let sizes: Vec<_> =
        claims.iter().filter_map(|claim| claim.status.as_ref()?.capacity.as_ref()?.get("storage")).collect();
    assert_eq!((claims.len(), sizes.iter().filter(|size| size.0 == "4Gi").count()), (9, 9), "{sizes:?}");
    Ok(())
}

async fn metrics(test: &Test, cluster: &Cluster<'_>) -> Result<()> {
    let script = "exec 3<>/dev/tcp/127.0.0.1/9121; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
    let answer = test.exec_in(&cluster.pod(0), names::container::VALKEY, &["bash", "-c", script]).await?.success()?;
    assert!(answer.contains("redis_up 1"), "the exporter does not reach Valkey: {answer}");
    Ok(())
}
