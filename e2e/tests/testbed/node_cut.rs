//! A node off the network: its pods live on unseen, the cluster notices, and healing brings all of it back.

use e2e::{Scenario, Test, Verdict, ready, test::PATIENCE, workload};
use kube::ResourceExt;

#[test]
fn a_cut_node_becomes_not_ready_and_healing_brings_it_back() -> anyhow::Result<()> {
    Scenario::named("a-cut-node-becomes-not-ready-and-healing-brings-it-back").breaks_nodes().run(async |test| {
        let nodes = test.nodes().await?;
        let (first, last) = (nodes[0].clone(), nodes[nodes.len() - 1].clone());
        test.apply(&workload::on_node(workload::echo_pod("observer"), &first)).await?;
        test.apply(&workload::on_node(workload::echo_pod("lonely"), &last)).await?;
        test.wait_for_pod("observer").await?;
        let pod = test.wait_for_pod("lonely").await?;
        let address = pod.status.clone().and_then(|status| status.pod_ip).expect("a ready pod has an address");
        assert_eq!(ping(test, &address).await?, "PONG");

        let fault = test.cut_node(&last).await?;
        test.wait_for_node(&last, "the cut node to be NotReady", PATIENCE, ready::node_not_ready).await?;
        assert_eq!(ping(test, &address).await?, "", "a pod of the cut node still answers");

        fault.mend().await?;
        test.wait_for_node(&last, "the healed node to be Ready", PATIENCE, ready::node_ready).await?;
        let back = test.wait_for_pod("lonely").await?;
        assert_eq!(back.uid(), pod.uid(), "the pod lived through the cut");
        test.wait_for("the pod to answer again", PATIENCE, async || {
            let answer = ping(test, &address).await?;
            Ok(Verdict::when(answer == "PONG", || format!("it answered {answer:?}")))
        })
        .await
    })
}

/// The answer, or nothing when none comes in time.
async fn ping(test: &Test, address: &str) -> anyhow::Result<String> {
    let output = test.exec("observer", &["timeout", "2", "valkey-cli", "-h", address, "ping"]).await?;
    Ok(output.stdout.trim().to_owned())
}
