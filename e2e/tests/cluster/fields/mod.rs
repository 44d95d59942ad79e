//! Every field of the spec set, changed and unset on one cluster, with its effect proven in the pods: `CONFIG GET`, the pod as it runs,
//! the Services. The table is in `table`.

mod table;

use anyhow::{Context, Result};
use api::names;
use e2e::{Cluster, Scenario, Test, Verdict, cluster};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Service};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use table::{Field, Proof, Stage, fields};

/// Objects without a namespace that values of the table name.
const CLASSES: &str = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-fields-low}
value: 1
preemptionPolicy: Never
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-fields-high}
value: 2
preemptionPolicy: Never
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: e2e-fields-one}
handler: runc
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: e2e-fields-two}
handler: runc
";

/// `masterCount` × (1 + `replicasPerMaster`) of the table, at every stage.
const PODS: u32 = 6;

#[test]
fn every_field_set_changed_and_unset_shows_in_the_pods() -> Result<()> {
    Scenario::named("every-field-set-changed-and-unset").run(async |test| {
        test.apply_yaml(CLASSES).await?;
        let fields = fields();
        let cluster = Cluster::create(test, "fields", spec_of(&fields, Stage::Set)).await?;
        shows(&cluster, &fields, Stage::Set).await?;
        change_to(&cluster, &fields, Stage::Changed).await?;
        change_to(&cluster, &fields, Stage::Unset).await
    })
}

#[test]
fn every_field_of_the_spec_is_in_the_table_or_has_a_test_of_its_own() {
    let definition = serde_json::to_value(api::definition::valkey_cluster()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let elsewhere = ["networkPolicy", "operatorMtls", "securityContext", "pvc", "paused", "sidecarImage", "modules"];
    let refused = ["tls", "acl", "clusterType", "clusterPassword"];
    let known: BTreeSet<&str> = schema.as_object().unwrap().keys().map(String::as_str).collect();
    let table = fields();
    let shown: BTreeSet<&str> = table.iter().map(|field| field.name).chain(elsewhere).chain(refused).collect();
    assert_eq!(known, shown);
}

#[test]
fn another_sidecar_image_goes_into_the_template_and_waits_for_a_restart() -> Result<()> {
    Scenario::named("another-sidecar-image-waits-for-a-restart").run(async |test| {
        let other = Cluster::create(test, "other", json!({})).await?;
        other.ready().await?;
        let lives = cluster::lives(&other.pods().await?);
        let original = sidecar_image(test).await?;
        other.edit(json!({"sidecarImage": {"name": "registry.example/sidecar", "tag": "v9"}})).await?;
        let waiting = other.says("RestartRequired", "True", Some("RestartPending")).await?;
        assert!(waiting.message.ends_with(": sidecarImage"), "{}", waiting.message);
        assert_eq!(sidecar_image(test).await?, "registry.example/sidecar:v9");
        other.edit(json!({"sidecarImage": null})).await?;
        other.says("RestartRequired", "False", Some("NothingPending")).await?;
        assert_eq!(sidecar_image(test).await?, original);
        assert_eq!(cluster::lives(&other.pods().await?), lives);
        Ok(())
    })
}

async fn sidecar_image(test: &Test) -> Result<String> {
    let stateful_set = serde_json::to_value(test.api::<StatefulSet>().get("other").await?)?;
    let image = stateful_set.pointer("/spec/template/spec/initContainers/0/image").and_then(Value::as_str);
    Ok(image.context("the template has a sidecar")?.to_owned())
}

fn spec_of(fields: &[Field], stage: Stage) -> Value {
    let value = |field: &Field| match stage {
        Stage::Set => field.set.clone(),
        Stage::Changed => field.changed.clone(),
        Stage::Unset => Value::Null,
    };
    Value::Object(fields.iter().map(|field| (field.name.to_owned(), value(field))).collect::<Map<_, _>>())
}

/// Live ones take effect at once; the others are named until the pods are replaced.
async fn change_to(cluster: &Cluster<'_>, fields: &[Field], stage: Stage) -> Result<()> {
    cluster.edit(spec_of(fields, stage)).await?;
    // Merging leaves keys of maps that the new value does not have; the table's maps have the same keys throughout.
    let waiting = cluster.says("RestartRequired", "True", Some("RestartPending")).await?;
    let list = waiting.message.rsplit(": ").next().unwrap_or_default();
    let named: BTreeSet<&str> = list.split(", ").collect();
    let expected: BTreeSet<&str> = fields.iter().filter_map(|field| field.restart).collect();
    assert_eq!(named, expected, "{}", waiting.message);
    live_ones_show(cluster, fields, stage).await?;
    cluster.replace_pods(0..PODS).await?;
    shows(cluster, fields, stage).await?;
    cluster.says("RestartRequired", "False", Some("NothingPending")).await.map(drop)
}

async fn live_ones_show(cluster: &Cluster<'_>, fields: &[Field], stage: Stage) -> Result<()> {
    let live: Vec<&Field> = fields.iter().filter(|field| field.restart.is_none()).collect();
    prove(cluster, &live, stage).await
}

async fn shows(cluster: &Cluster<'_>, fields: &[Field], stage: Stage) -> Result<()> {
    cluster.ready().await?;
    prove(cluster, &fields.iter().collect::<Vec<_>>(), stage).await
}

async fn prove(cluster: &Cluster<'_>, fields: &[&Field], stage: Stage) -> Result<()> {
    let proofs = || fields.iter().flat_map(|field| &field.proofs);
    let parameters: Vec<(&str, &str)> = proofs().filter_map(|proof| proof.parameter(stage)).collect();
    cluster.runs_with(PODS, &parameters).await?;
    for proof in proofs() {
        match proof {
            Proof::Pod(pointer, _) => pods_have(cluster, pointer, proof.value(stage)).await?,
            Proof::ReadService(_) => read_service_is(cluster, proof.value(stage) == Some(json!(true))).await?,
            Proof::Annotation(object, key, _) => annotation_is(cluster, object, key, proof.value(stage)).await?,
            Proof::Parameter(..) => {}
        }
    }
    Ok(())
}

async fn pods_have(cluster: &Cluster<'_>, pointer: &str, wanted: Option<Value>) -> Result<()> {
    cluster
        .test
        .wait_for(&format!("every pod to have {wanted:?} at {pointer}"), e2e::PATIENCE, async || {
            for pod in cluster.pods().await? {
                let found = serde_json::to_value(&pod)?.pointer(pointer).cloned();
                if found != wanted {
                    return Ok(Verdict::NotYet(format!("{:?} has {found:?}", pod.metadata.name)));
                }
            }
            Ok(Verdict::Met(()))
        })
        .await
}

async fn read_service_is(cluster: &Cluster<'_>, wanted: bool) -> Result<()> {
    let name = names::read_service(&cluster.name);
    let what = format!("the read Service to be there: {wanted}");
    let judge = |service: Option<&Service>| Verdict::when(service.is_some() == wanted, || format!("it is {}", !wanted));
    cluster.test.wait_for_object(&name, &what, e2e::PATIENCE, judge).await
}

async fn annotation_is(
    cluster: &Cluster<'_>,
    [kind, name]: &[&str; 2],
    key: &str,
    wanted: Option<Value>,
) -> Result<()> {
    let what = format!("{kind} {name} to have {wanted:?} as {key}");
    cluster
        .test
        .wait_for(&what, e2e::PATIENCE, async || {
            let object = cluster.test.kubectl(&["get", kind, name, "-o", "json"]).await?.success()?;
            let object: Value = serde_json::from_str(&object)?;
            let found = object["metadata"]["annotations"].get(key).cloned();
            Ok(Verdict::when(found == wanted, || format!("it has {found:?}")))
        })
        .await
}
