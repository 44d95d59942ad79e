//! The smallest spec there is: what it becomes, and what people and their tools read about it.

use anyhow::{Context, Result};
use api::cluster::effective::{self, Layers};
use api::{cluster::ValkeyCluster, names, valkey_version::ValkeyVersion};
use e2e::{Cluster, Scenario, Test, cluster, operator};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::{collections::BTreeMap, path::Path};

#[test]
fn a_minimal_cluster_becomes_six_ready_pods_over_three_nodes() -> Result<()> {
    Scenario::named("a-minimal-cluster-becomes-six-ready-pods").run(async |test| {
        operator::require(test).await?;
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/minimal.yaml");
        test.kubectl(&["apply", "-f", &example.display().to_string()]).await?.success()?;
        test.kubectl(&["wait", "--for=condition=Ready", "vc/minimal", "--timeout=180s"]).await?.success()?;
        let minimal = Cluster::named(test, "minimal");
        spreads(test, &minimal.pods().await?).await?;
        let ready = minimal.ready().await?;
        tells(&ready);
        columns(test, &version_of(&ready)).await?;
        scale_is_checked(test).await
    })
}

async fn spreads(test: &Test, pods: &[Pod]) -> Result<()> {
    assert_eq!(pods.len(), 6);
    let mut by_node = BTreeMap::<String, usize>::new();
    for pod in pods {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("a Ready pod is on a node")?;
        *by_node.entry(node).or_default() += 1;
    }
    assert_eq!(by_node.len(), test.nodes().await?.len().min(6), "{by_node:?}");
    Ok(())
}

fn tells(minimal: &ValkeyCluster) {
    let status = minimal.status.as_ref().expect("a Ready cluster has a status");
    let conditions: Vec<_> = status.conditions.iter().map(|c| (&*c.type_, &*c.status, &*c.reason)).collect();
    let expected = [
        ("Ready", "True", "AllPodsReady"),
        ("Progressing", "False", "UpToDate"),
        ("Degraded", "False", "AsExpected"),
        ("RestartRequired", "False", "NothingPending"),
        ("Secured", "False", "Unprotected"),
        ("SidecarsConnected", "True", "AllSidecarsConnected"),
        ("SlotsCovered", "True", "AllSlotsCovered"),
        ("ReplicasInSync", "True", "AllReplicasInSync"),
        ("Available", "True", "Serving"),
        ("Reconciling", "False", "UpToDate"),
        ("Stalled", "False", "AsExpected"),
        ("SidecarsUpToDate", "True", "SidecarsCurrent"),
        ("ParametersInEffect", "True", "AllParametersInEffect"),
    ];
    assert_eq!(conditions, expected);
    assert!(status.conditions.iter().all(|condition| condition.observed_generation == minimal.metadata.generation));
    assert_eq!(status.observed_generation, minimal.metadata.generation);
    assert_eq!((status.master_count, status.replicas_per_master, status.replicas), (3, 1, 6));
    assert_eq!((status.ready_replicas, status.ready_pods.as_deref()), (6, Some("6/6")));
    assert_eq!(status.version, Some(version_of(minimal)));
    assert_eq!(status.selector.as_deref(), Some(names::primaries_selector_text("minimal").as_str()));
    assert_eq!(status.stateful_set.as_ref().map(|reference| reference.name.as_str()), Some("minimal"));
    assert_eq!(status.plan, None);
    assert_eq!(cluster::condition(minimal, "Ready").map(|ready| ready.message.as_str()), Some("6 of 6 pods are ready"));
}

fn version_of(cluster: &ValkeyCluster) -> String {
    let spec = effective::resolve(Layers::of(&cluster.spec)).spec;
    ValkeyVersion::from_tag(&spec.valkey_image.tag).expect("the schema refuses other tags").to_string()
}

async fn columns(test: &Test, version: &str) -> Result<()> {
    let table = test.kubectl(&["get", "vc"]).await?.success()?;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "READY", "PRIMARIES", "REPLICAS", "VERSION", "PHASE", "PODS", "AGE"], "{table}");
    assert_eq!(rows[1][..7], ["minimal", "True", "3", "1", version, "Running", "6/6"], "{table}");
    // Not in `all`: kubectl delete all --all is meant for what runs, not for what owns data.
    for (category, shown) in [("valkey", true), ("all", false)] {
        let listed = test.kubectl(&["get", category, "-o", "name"]).await?.success()?;
        assert_eq!(listed.contains("valkeycluster.valkey.io/minimal"), shown, "{category}: {listed}");
    }
    let explained = test.kubectl(&["explain", "vc.spec.masterCount"]).await?.success()?;
    assert!(explained.contains("Number of shards"), "{explained}");
    Ok(())
}

async fn scale_is_checked(test: &Test) -> Result<()> {
    let refused = test.kubectl(&["scale", "vc/minimal", "--replicas=2"]).await?;
    assert_ne!(refused.code, 0, "two primaries were accepted");
    assert!(refused.stderr.contains("masterCount must be at least 3"), "{refused:?}");
    let scale = test.kubectl(&["get", "vc/minimal", "--subresource=scale", "-o", "json"]).await?.success()?;
    let scale: serde_json::Value = serde_json::from_str(&scale)?;
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&3.into(), &3.into()), "{scale}");
    // An autoscaler takes its average over the pods that this finds, and means the number above.
    let selector = scale["status"]["selector"].as_str().context("a selector")?;
    let found = test.kubectl(&["get", "pods", "-l", selector, "-o", "name"]).await?.success()?;
    assert_eq!(found.lines().count(), 3, "{selector} finds {found}");
    Ok(())
}

#[test]
fn every_object_of_a_cluster_is_marked_and_owned() -> Result<()> {
    Scenario::named("every-object-of-a-cluster-is-marked-and-owned").run(async |test| {
        let marked = Cluster::create(test, "marked", serde_json::json!({"readService": {"enabled": true}})).await?;
        let uid = marked.ready().await?.uid();
        let kinds = "serviceaccounts,configmaps,services,networkpolicies,poddisruptionbudgets,statefulsets";
        let listed = test.kubectl(&["get", kinds, "-l", &marked.selector(), "-o", "json"]).await?.success()?;
        let listed: serde_json::Value = serde_json::from_str(&listed)?;
        let items = listed["items"].as_array().context("a list")?;
        assert_eq!(items.len(), 8, "{listed}");
        for item in items {
            let metadata = &item["metadata"];
            assert_eq!(metadata["labels"][names::label::MANAGED_BY], names::MANAGER, "{metadata}");
            assert_eq!(metadata["annotations"][names::annotation::CR], "marked", "{metadata}");
            let owner = &metadata["ownerReferences"][0];
            assert_eq!((owner["uid"].as_str(), &owner["controller"]), (uid.as_deref(), &true.into()), "{metadata}");
        }
        Ok(())
    })
}
