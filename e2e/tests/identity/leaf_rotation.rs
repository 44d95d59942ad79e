//! A short-lived leaf is replaced again and again: every sidecar takes each new one, nothing restarts, and none is ever let expire.

use crate::stored::{all_show, another_leaf, connected, leaf, transitions};
use anyhow::Result;
use e2e::{Cluster, Scenario, Test, cluster};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::time::Duration;

/// Replaced when two thirds of this are over.
const VALIDITY: &str = "60s";
const LONG: Duration = Duration::from_secs(900);
/// What the sidecar says whenever its line breaks, or the connection with the new certificate did not come to be.
const BROKEN: [&str; 2] = ["not connected to the operator", "could not connect with the new certificate"];

#[test]
fn short_lived_leaves_replaced_twice_fail_no_call() -> Result<()> {
    replaced("short-lived-leaves-replaced-twice", 2)
}

#[test]
#[ignore = "the same for longer"]
fn short_lived_leaves_replaced_ten_times_fail_no_call() -> Result<()> {
    replaced("short-lived-leaves-replaced-ten-times", 10)
}

fn replaced(name: &str, times: usize) -> Result<()> {
    Scenario::named(name).timeout(LONG).run(async |test| {
        let mtls = json!({"operatorMtls": {"clientCertValidity": VALIDITY, "rotateBeforePercent": 66}});
        let poc = Cluster::create(test, "poc", mtls).await?;
        poc.ready().await?;
        let (lives, before) = (cluster::lives(&poc.pods().await?), transitions(&poc).await?);
        let broken = interruptions(test).await?;
        let mut current = leaf(&poc).await?;
        for _ in 0..times {
            let next = another_leaf(&poc, &current).await?;
            assert!(current.not_after > Timestamp::now(), "the leaf before it had expired");
            assert_eq!(next.issuer, current.issuer);
            all_show(&poc, &next, 3).await?;
            current = next;
        }
        connected(&poc, 3).await?;
        assert_eq!(interruptions(test).await?, broken, "a line was interrupted");
        assert_eq!(transitions(&poc).await?, before, "Ready or SidecarsConnected changed under a rotation");
        assert_eq!(cluster::lives(&poc.pods().await?), lives, "a new certificate restarted pods");
        Ok(())
    })
}

/// How often each sidecar's line broke, or a call with a new certificate failed.
async fn interruptions(test: &Test) -> Result<Vec<usize>> {
    let mut counts = Vec::new();
    for ordinal in 0..3 {
        let log = test.logs(&format!("poc-{ordinal}"), "sidecar").await?;
        counts.push(log.lines().filter(|line| BROKEN.iter().any(|broken| line.contains(broken))).count());
    }
    Ok(counts)
}

#[test]
fn another_validity_takes_effect_without_a_restart() -> Result<()> {
    Scenario::named("another-validity-takes-effect").run(async |test| {
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let before = leaf(&poc).await?;
        poc.edit(json!({"operatorMtls": {"clientCertValidity": "2d"}})).await?;
        let after = another_leaf(&poc, &before).await?;
        assert!(after.not_after.duration_since(before.not_after).as_hours() > 24);
        all_show(&poc, &after, 3).await
    })
}
