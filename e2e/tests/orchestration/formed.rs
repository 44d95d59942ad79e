//! Clusters of three primaries with one replica each, with load on them, and the waits that follow a fault.

use anyhow::{Result, ensure};
use e2e::{Cluster, ClusterLoad, PATIENCE, Scenario, Test, Verdict, cluster, load::REACH, node, sound};
use load::{Options, Report};
use serde_json::{Value, json};

/// Writes per second: several tests share two cores.
const RATE: u32 = 150;

pub fn scenario(name: &str) -> Scenario {
    Scenario::named(name).needs_testbed(REACH).heavy()
}

/// Fields of a cluster of this version with a replica for each primary.
pub fn fields(version: &str, more: Value) -> Value {
    let mut fields = json!({"replicasPerMaster": 1, "valkeyImage": {"name": cluster::IMAGE, "tag": version}});
    if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
        fields.extend(more);
    }
    fields
}

/// A volume for each pod, and a log of every write on it.
pub fn on_volumes() -> Value {
    json!({"pvc": {"storageSize": "300Mi"}, "backup": {"aof": {"enabled": true}}})
}

/// Makes a cluster and waits until it is sound.
pub async fn formed<'a>(test: &'a Test, name: &str, version: &str, more: Value) -> Result<Cluster<'a>> {
    let cluster = Cluster::create(test, name, fields(version, more)).await?;
    sound(&cluster, 3, 1).await?;
    Ok(cluster)
}

/// Counts a write once its primary has it: for what must lose nothing at all.
pub async fn loaded<'a>(cluster: &Cluster<'a>) -> Result<ClusterLoad<'a>> {
    started(cluster, 0).await
}

/// Counts a write once a replica has it: for sudden deaths.
pub async fn loaded_twice<'a>(cluster: &Cluster<'a>) -> Result<ClusterLoad<'a>> {
    started(cluster, 1).await
}

async fn started<'a>(cluster: &Cluster<'a>, replicas: u32) -> Result<ClusterLoad<'a>> {
    let load = ClusterLoad::start_with(cluster, |options| Options { replicas, rate: RATE, ..options }).await?;
    load.acknowledges(200).await?;
    Ok(load)
}

/// Waits until a pod's node says of itself that it is a primary.
pub async fn promoted(cluster: &Cluster<'_>, pod: &str) -> Result<()> {
    let what = format!("{pod} to be promoted");
    cluster
        .test
        .wait_for(&what, PATIENCE, async || {
            let role = node::ask(cluster.test, pod, &["role"]).await?;
            let first = role.lines().next().unwrap_or_default().to_owned();
            Ok(Verdict::when(first == "master", || format!("it is a {first}")))
        })
        .await
}

/// Stops the load once every shard takes writes again; nothing may be missing.
pub async fn stopped_whole(load: ClusterLoad<'_>) -> Result<Report> {
    load.flows().await?;
    load.acknowledges(100).await?;
    let report = load.stop_sound().await?;
    ensure!(report.acknowledged > 300, "hardly anything was written: {report}");
    Ok(report)
}
