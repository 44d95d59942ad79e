//! Pods reach each other over nodes and by name.

use e2e::{Scenario, Test, Verdict, test::PATIENCE, workload};

#[test]
fn pods_on_different_nodes_talk_by_service_name() -> anyhow::Result<()> {
    Scenario::named("pods-on-different-nodes-talk-by-service-name").run(async |test| {
        let nodes = test.nodes().await?;
        let [first, second, ..] = nodes.as_slice() else { return test.skip("the cluster has fewer than two nodes") };
        let (server, client) = (workload::echo_pod("server"), workload::echo_pod("client"));
        test.apply(&workload::on_node(server, first)).await?;
        test.apply(&workload::on_node(client, second)).await?;
        test.apply(&workload::echo_service("server")).await?;
        test.wait_for_pod("server").await?;
        test.wait_for_pod("client").await?;
        let full_name = format!("server.{}.svc.cluster.local", test.namespace);
        for name in ["server", full_name.as_str()] {
            answers(test, name).await?;
        }
        Ok(())
    })
}

#[test]
fn a_name_that_does_not_exist_is_refused_by_dns_at_once() -> anyhow::Result<()> {
    Scenario::named("a-name-that-does-not-exist-is-refused-by-dns-at-once").run(async |test| {
        test.apply(&workload::echo_pod("client")).await?;
        test.wait_for_pod("client").await?;
        let output = test.exec("client", &["timeout", "10", "valkey-cli", "-h", "nobody", "ping"]).await?;
        assert_eq!(output.code, 1, "a missing name should fail before the time limit: {output:?}");
        assert!(output.stderr.contains("nobody"), "{output:?}");
        Ok(())
    })
}

async fn answers(test: &Test, host: &str) -> anyhow::Result<()> {
    let what = format!("an answer from {host}");
    test.wait_for(&what, PATIENCE, async || {
        let output = test.exec("client", &["timeout", "3", "valkey-cli", "-h", host, "ping"]).await?;
        Ok(Verdict::when(output.stdout.trim() == "PONG", || format!("{output:?}")))
    })
    .await
}
