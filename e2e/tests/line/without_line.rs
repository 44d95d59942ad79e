//! Pods that know no line, as an older operator made them: they go on, are reported as not connected, and are not restarted for it.

use crate::connected::all_connected;
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Scenario, cluster::lives};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;

#[test]
fn pods_without_a_line_go_on_and_are_reported() -> Result<()> {
    let scenario = Scenario::named("pods-without-a-line-go-on-and-are-reported");
    scenario.run(async |test| {
        let cluster = Cluster::create(test, "poc", json!({"pvc": {"storageSize": "300Mi"}})).await?;
        all_connected(&cluster, 3).await?;
        cluster.ready().await?;
        cluster.edit(json!({"paused": true})).await?;
        cluster.says("Progressing", "False", Some("Paused")).await?;
        forget_the_line(&cluster).await?;
        cluster.replace_pods([1]).await?;
        let lived = lives(&cluster.pods().await?);
        cluster.edit(json!({"paused": false})).await?;
        let said = cluster.says("SidecarsConnected", "False", Some("SidecarsDisconnected")).await?;
        ensure!(said.message.contains("poc-1") && !said.message.contains("poc-0"), "{}", said.message);
        // A node that is not heard may be anything; the pods serve on all the same.
        cluster.says("Ready", "False", None).await?;
        ensure!(cluster.cli(1, &["ping"]).await? == "PONG");
        ensure!(lives(&cluster.pods().await?) == lived, "a pod was restarted because its sidecar is not connected");
        cluster.replace_pods([1]).await?;
        all_connected(&cluster, 3).await?;
        Ok(())
    })
}

/// Takes the token away, which is what an older template lacks.
async fn forget_the_line(cluster: &Cluster<'_>) -> Result<()> {
    let sets = cluster.test.api::<StatefulSet>();
    let mut set = sets.get(&cluster.name).await.context("read the StatefulSet")?;
    set.metadata.managed_fields = None;
    let pod = set.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()).context("it has a template")?;
    let volumes = pod.volumes.iter_mut().flatten();
    let tokens: Vec<String> =
        volumes.filter(|volume| volume.projected.is_some()).map(|volume| volume.name.clone()).collect();
    ensure!(!tokens.is_empty(), "the template has no projected token");
    pod.volumes.iter_mut().for_each(|all| all.retain(|volume| !tokens.contains(&volume.name)));
    for container in pod.init_containers.iter_mut().flatten() {
        container.volume_mounts.iter_mut().for_each(|all| all.retain(|mount| !tokens.contains(&mount.name)));
    }
    sets.replace(&cluster.name, &Default::default(), &set).await.context("write the StatefulSet")?;
    Ok(())
}
