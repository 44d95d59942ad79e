//! An operator killed after any of its writes: the next one finishes the job and repeats nothing that can be seen.

use crate::own_operator::{OwnOperator, forget_logs};
use anyhow::{Context, Result};
use e2e::{Cluster, Scenario, Test, Verdict, operator::StoppedOperator};
use serde_json::{Map, Value, json};

const KINDS: &str = "serviceaccounts,configmaps,services,networkpolicies,poddisruptionbudgets,statefulsets";
pub const REASON: &str = "it stops the operator that all other tests need";
/// More writes than a first look could ever need: a loop that does not settle must end too.
pub const TOO_MANY: usize = 60;

#[test]
fn an_operator_killed_after_any_write_is_finished_by_the_next() -> Result<()> {
    let scenario = Scenario::named("an-operator-killed-after-any-write");
    scenario.alone(REASON).run(async |test| {
        let stopped = StoppedOperator::stop(test).await?;
        let undisturbed = undisturbed(test).await?;
        let mut survived = None;
        for last in 1..TOO_MANY {
            if !killed_after(test, last, &undisturbed).await? {
                survived = Some(last);
                break;
            }
        }
        let writes = survived.context("the operator never came to rest")? - 1;
        test.note(format!("killed after each of {writes} writes"));
        assert!(writes >= 9, "only {writes} writes: eight objects and a status are expected");
        stopped.start().await?;
        forget_logs(test)
    })
}

/// Pods that no node takes cost nothing, and their trouble is worth an Event, which must not come twice.
fn fields() -> Value {
    let nowhere = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["nowhere"]});
    let terms = json!([{"matchExpressions": [nowhere]}]);
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    json!({"nodeAffinity": affinity, "readService": {"enabled": true}})
}

/// What an operator that nobody kills makes of such a cluster.
async fn undisturbed(test: &Test) -> Result<Value> {
    let calm = Cluster::create_unattended(test, "calm", fields()).await?;
    let _operator = OwnOperator::start(test, "undisturbed", None).await?;
    settled(&calm).await?;
    let objects = objects(&calm).await?;
    remove(&calm).await?;
    Ok(objects)
}

/// False when the operator came to rest before its write of this number.
async fn killed_after(test: &Test, last: usize, undisturbed: &Value) -> Result<bool> {
    let name = "calm";
    let cluster = Cluster::create_unattended(test, name, fields()).await?;
    let mut victim = OwnOperator::start(test, &format!("victim-{last}"), Some(last)).await?;
    let died = tokio::select! {
        () = victim.proxy.reached() => true,
        result = settled_and_quiet(&cluster, &victim) => { result?; false }
    };
    victim.kill()?;
    if died {
        let _successor = OwnOperator::start(test, &format!("successor-{last}"), None).await?;
        settled(&cluster).await.with_context(|| format!("after a kill at {:?}", victim.proxy.writes().last()))?;
        assert_eq!(&objects(&cluster).await?, undisturbed, "after a kill at {:?}", victim.proxy.writes().last());
        let warnings = cluster.warnings().await?;
        assert_eq!(warnings.len(), 1, "after a kill at {:?}: {warnings:?}", victim.proxy.writes().last());
    }
    remove(&cluster).await?;
    Ok(died)
}

async fn settled(cluster: &Cluster<'_>) -> Result<()> {
    cluster.says("Degraded", "True", Some("PodUnschedulable")).await.map(drop)
}

async fn settled_and_quiet(cluster: &Cluster<'_>, operator: &OwnOperator) -> Result<()> {
    settled(cluster).await?;
    operator.is_quiet(cluster.test).await
}

/// All objects of the cluster without what differs from life to life.
async fn objects(cluster: &Cluster<'_>) -> Result<Value> {
    let listed = cluster.test.kubectl(&["get", KINDS, "-l", &cluster.selector(), "-o", "json"]).await?.success()?;
    let uid = cluster.get().await?.metadata.uid.context("the cluster has a UID")?;
    let mut listed: Value = serde_json::from_str(&listed.replace(&uid, "its-uid"))?;
    for item in listed["items"].as_array_mut().context("a list")? {
        let item = item.as_object_mut().context("an object")?;
        item.remove("status");
        let metadata = item["metadata"].as_object_mut().context("metadata")?;
        for key in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(key);
        }
        // Addresses are given out anew.
        if let Some(spec) = item.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        if let Some(annotations) = item["metadata"]["annotations"].as_object_mut() {
            annotations.remove("valkey.io/applied-revision");
        }
        same_for_all(item);
    }
    Ok(listed["items"].take())
}

/// Takes out of the settings which operator they are for: it is another one each time.
fn same_for_all(item: &mut Map<String, Value>) {
    let Some(text) = item.get_mut("data").and_then(|data| data.get_mut("settings.json")) else { return };
    let settings = text.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(mut settings) = settings {
        let map = settings.as_object_mut().expect("settings.json is an object");
        map.remove("line");
        *text = settings;
    }
}

/// With everything that belongs to it, so that the next one starts from nothing.
async fn remove(cluster: &Cluster<'_>) -> Result<()> {
    let test = cluster.test;
    test.delete_and_wait::<api::cluster::ValkeyCluster>(&cluster.name).await?;
    let all = format!("{KINDS},pods");
    test.wait_for("everything of the cluster to be gone", e2e::PATIENCE, async || {
        let left = test.kubectl(&["get", &all, "-l", &cluster.selector(), "-o", "name"]).await?.success()?;
        Ok(Verdict::when(left.is_empty(), || left))
    })
    .await?;
    test.kubectl(&["delete", "events", "--all"]).await?.success().map(drop)
}
