//! A short-lived leaf is replaced again and again: every sidecar takes each new one, nothing restarts, and none is ever let expire.

use crate::stored::{all_show, another_leaf, connected, leaf, transitions};
use anyhow::Result;
use e2e::{Cluster, Scenario, Test, cluster};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::time::{Duration, Instant};

/// Replaced when two thirds of this are over: every half minute.
const VALIDITY: &str = "45s";
const LONG: Duration = Duration::from_secs(5 * 60);
/// What the sidecar says whenever its line breaks, or the connection with the new certificate did not come to be.
const BROKEN: [&str; 2] = ["not connected to the operator", "could not connect with the new certificate"];

#[test]
fn leaves_replaced_every_half_minute_for_five_minutes_fail_no_call() -> Result<()> {
    let scenario = Scenario::named("leaves-replaced-every-half-minute").timeout(LONG + Duration::from_secs(180));
    scenario.run(async |test| {
        let mtls = json!({"operatorMtls": {"clientCertValidity": VALIDITY, "rotateBeforePercent": 66}});
        let poc = Cluster::create(test, "poc", mtls).await?;
        poc.ready().await?;
        let (lives, before) = (cluster::lives(&poc.pods().await?), transitions(&poc).await?);
        let broken = interruptions(test).await?;
        let (began, mut current, mut replaced) = (Instant::now(), leaf(&poc).await?, 0);
        while began.elapsed() < LONG {
            let next = another_leaf(&poc, &current).await?;
            assert!(current.not_after > Timestamp::now(), "the leaf before it had expired");
            assert_eq!(next.issuer, current.issuer);
            all_show(&poc, &next, 3).await?;
            (current, replaced) = (next, replaced + 1);
        }
        assert!(replaced >= 8, "only {replaced} leaves in {LONG:?}");
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
