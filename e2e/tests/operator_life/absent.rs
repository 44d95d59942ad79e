//! Without an operator the clusters go on; when it is back it finds them as they are.

use anyhow::Result;
use e2e::{Cluster, Scenario, cluster, operator::StoppedOperator, process};
use serde_json::json;

#[test]
fn without_an_operator_pods_go_on_and_come_back() -> Result<()> {
    let scenario = Scenario::named("without-an-operator-pods-go-on-and-come-back");
    scenario.alone("it stops the operator that all other tests need").run(async |test| {
        let alone = Cluster::create(test, "alone", json!({"pvc": {"storageSize": "300Mi"}})).await?;
        alone.ready().await?;
        let (lives, id) = (cluster::lives(&alone.pods().await?), alone.node_id(0).await?);
        let stopped = StoppedOperator::stop(test).await?;
        assert_eq!(alone.cli(0, &["ping"]).await?, "PONG");
        alone.replace_pods([0]).await?;
        assert_eq!(alone.node_id(0).await?, id, "the pod came back as another node");
        test.kill_pod("alone-1", Some("valkey")).await?;
        test.wait_for_object("alone-1", "the killed Valkey to be back", e2e::PATIENCE, |pod| {
            let restarts: i32 =
                pod.map(process::container_statuses).into_iter().flatten().map(|status| status.restart_count).sum();
            if restarts == 1 { e2e::ready::pod_ready(pod) } else { e2e::Verdict::not_yet("it was not restarted") }
        })
        .await?;
        alone.edit(json!({"config": {"hz": "20"}})).await?;
        stopped.start().await?;
        alone.runs_with(3, &[("hz", "20")]).await?;
        alone.ready().await?;
        let now = cluster::lives(&alone.pods().await?);
        assert_eq!(now["alone-2"], lives["alone-2"], "the operator's return restarted a pod");
        Ok(())
    })
}
