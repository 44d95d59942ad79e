//! Who reaches what: clients the client port from everywhere, the cluster bus only its own nodes, the sidecar nobody but the kubelet.

use anyhow::{Context, Result};
use e2e::{Cluster, Scenario, Test, Verdict, workload};
use serde_json::json;

#[derive(Debug, PartialEq, Clone, Copy)]
enum Way {
    Open,
    Blocked,
}

#[test]
fn strangers_reach_the_client_port_and_nothing_else() -> Result<()> {
    Scenario::named("strangers-reach-the-client-port-only").run(async |test| {
        test.apply(&workload::echo_pod("stranger")).await?;
        let closed = Cluster::create(test, "closed", json!({"exporter": {"enabled": true}})).await?;
        closed.ready().await?;
        test.wait_for_pod("stranger").await?;
        let address = address_of(&closed).await?;
        let pong = test.exec("stranger", &["valkey-cli", "-h", "closed", "ping"]).await?.success()?;
        assert_eq!(pong.trim(), "PONG", "the client Service does not answer");
        for (port, way) in [(6379, Way::Open), (9121, Way::Open), (16379, Way::Blocked), (8081, Way::Blocked)] {
            leads(test, ("stranger", "echo"), &address, port, way).await?;
        }
        for (port, way) in [(6379, Way::Open), (16379, Way::Open), (8081, Way::Blocked)] {
            leads(test, ("closed-1", "valkey"), &address, port, way).await?;
        }
        Ok(())
    })
}

/// Narrowed on a living cluster, which goes on replicating, hands over and starts again through its gate.
#[test]
fn a_narrowed_policy_lets_in_whom_it_names_and_the_clusters_own_pods() -> Result<()> {
    Scenario::named("a-narrowed-policy-lets-in-whom-it-names").run(async |test| {
        for name in ["client", "stranger"] {
            test.apply(&workload::echo_pod(name)).await?;
        }
        let from = |name: &str| json!([{"podSelector": {"matchLabels": {"app": name}}}]);
        let fields = json!({"replicasPerMaster": 1, "exporter": {"enabled": true}});
        let narrow = Cluster::create(test, "narrow", fields).await?;
        narrow.ready().await?;
        for name in ["client", "stranger"] {
            test.wait_for_pod(name).await?;
        }
        narrow.edit(json!({"networkPolicy": {"from": from("client"), "metricsFrom": []}})).await?;
        reaches(&narrow, &[("client", 6379, Way::Open), ("client", 9121, Way::Blocked)]).await?;
        reaches(&narrow, &[("stranger", 6379, Way::Blocked), ("stranger", 16379, Way::Blocked)]).await?;
        own_pods_pass(&narrow).await?;
        narrow.edit(json!({"networkPolicy": {"enabled": false}})).await?;
        reaches(&narrow, &[("stranger", 6379, Way::Open), ("stranger", 16379, Way::Open)]).await?;
        let policies = test.kubectl(&["get", "networkpolicies", "-o", "name"]).await?.success()?;
        assert!(!policies.contains("/narrow"), "{policies}");
        narrow.edit(json!({"networkPolicy": null})).await?;
        reaches(&narrow, &[("stranger", 6379, Way::Open), ("stranger", 16379, Way::Blocked)]).await?;
        narrow.ready().await.map(drop)
    })
}

/// A pod that is deleted hands over, its successor asks the others before it starts, and copies from its primary.
async fn own_pods_pass(narrow: &Cluster<'_>) -> Result<()> {
    let inside = |port, way| ((narrow.pod(1), "valkey"), port, way);
    let address = address_of(narrow).await?;
    for ((pod, container), port, way) in [inside(6379, Way::Open), inside(16379, Way::Open)] {
        leads(narrow.test, (&pod, container), &address, port, way).await?;
    }
    for ordinal in 0..3 {
        narrow.replace_pods([ordinal]).await?;
        narrow.ready().await?;
    }
    Ok(())
}

async fn reaches(cluster: &Cluster<'_>, ways: &[(&str, u16, Way)]) -> Result<()> {
    let address = address_of(cluster).await?;
    for (pod, port, way) in ways {
        leads(cluster.test, (pod, "echo"), &address, *port, *way).await?;
    }
    Ok(())
}

async fn address_of(closed: &Cluster<'_>) -> Result<String> {
    let pods = closed.pods().await?;
    let address = pods.first().and_then(|pod| pod.status.as_ref()?.pod_ip.clone());
    address.context("a Ready pod has an address")
}

async fn leads(test: &Test, from: (&str, &str), address: &str, port: u16, wanted: Way) -> Result<()> {
    let knock = format!("exec 3<>/dev/tcp/{address}/{port}");
    let what = format!("the way from {} to {address}:{port} to be {wanted:?}", from.0);
    test.wait_for(&what, e2e::PATIENCE, async || {
        let output = test.exec_in(from.0, from.1, &["timeout", "2", "bash", "-c", &knock]).await?;
        let found = match output.code {
            0 => Way::Open,
            // The time limit: packets vanish, as they do when a policy drops them.
            124 => Way::Blocked,
            _ => return Ok(Verdict::NotYet(format!("{output:?}"))),
        };
        Ok(Verdict::when(found == wanted, || format!("it is {found:?}")))
    })
    .await
}
