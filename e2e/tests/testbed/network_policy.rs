//! NetworkPolicies of the ingress kind are enforced, and follow a change.

use e2e::{Scenario, Test, Verdict, test::PATIENCE, workload};

#[test]
fn a_network_policy_blocks_and_when_changed_allows() -> anyhow::Result<()> {
    Scenario::named("a-network-policy-blocks-and-when-changed-allows").run(async |test| {
        for name in ["server", "client", "stranger"] {
            test.apply(&workload::echo_pod(name)).await?;
        }
        test.apply(&workload::echo_service("server")).await?;
        for name in ["server", "client", "stranger"] {
            test.wait_for_pod(name).await?;
        }
        becomes(test, "client", Reach::Open).await?;
        test.apply_yaml(&policy("[]")).await?;
        becomes(test, "client", Reach::Blocked).await?;
        test.apply_yaml(&policy("[{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 6379}]}]"))
            .await?;
        becomes(test, "client", Reach::Open).await?;
        becomes(test, "stranger", Reach::Blocked).await?;
        Ok(())
    })
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum Reach {
    Open,
    Blocked,
}

fn policy(ingress: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: server}}
spec:
  podSelector: {{matchLabels: {{app: server}}}}
  policyTypes: [Ingress]
  ingress: {ingress}
"
    )
}

async fn becomes(test: &Test, from: &str, wanted: Reach) -> anyhow::Result<()> {
    test.wait_for(&format!("the way from {from} to be {wanted:?}"), PATIENCE, async || {
        let output = test.exec(from, &["timeout", "1", "valkey-cli", "-h", "server", "ping"]).await?;
        let reach = match (output.code, output.stdout.trim()) {
            (0, "PONG") => Reach::Open,
            // 124 is the time limit: packets vanish, as they do when a policy drops them.
            (124, _) => Reach::Blocked,
            _ => return Ok(Verdict::NotYet(format!("{output:?}"))),
        };
        Ok(Verdict::when(reach == wanted, || format!("it is {reach:?}")))
    })
    .await
}
