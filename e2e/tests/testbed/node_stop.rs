//! A node that loses its power: what ran there is dead, and after the reboot it runs again with its data.

use e2e::{Scenario, Verdict, ready, test::PATIENCE, workload};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

#[test]
fn a_stopped_node_brings_its_pods_back_when_started() -> anyhow::Result<()> {
    Scenario::named("a-stopped-node-brings-its-pods-back-when-started").breaks_nodes().run(async |test| {
        let node = test.nodes().await?.pop().expect("the testbed has nodes");
        test.apply(&workload::claim("data", "300Mi")).await?;
        test.apply(&workload::on_node(workload::echo_pod_with_claim("survivor", "data"), &node)).await?;
        let pod = test.wait_for_pod("survivor").await?;
        test.exec("survivor", &["sh", "-c", "echo kept > /data/note && sync"]).await?.success()?;

        let fault = test.stop_node(&node).await?;
        test.wait_for_node(&node, "the stopped node to be NotReady", PATIENCE, ready::node_not_ready).await?;

        fault.mend().await?;
        test.wait_for_node(&node, "the started node to be Ready", PATIENCE, ready::node_ready).await?;
        let back = test.wait_for_object("survivor", "the pod to run again", PATIENCE, restarted).await?;
        assert_eq!(back.uid(), pod.uid());
        let note = test.exec("survivor", &["cat", "/data/note"]).await?.success()?;
        assert_eq!(note, "kept\n");
        Ok(())
    })
}

/// Ready alone could still be the state from before the stop.
fn restarted(pod: Option<&Pod>) -> Verdict<Pod> {
    let restarts = pod
        .and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref()?.first().map(|status| status.restart_count));
    match restarts {
        Some(0) | None => Verdict::NotYet(format!("restarts: {restarts:?}; {:?}", pod.map(ready::describe_pod))),
        Some(_) => ready::pod_ready(pod),
    }
}
