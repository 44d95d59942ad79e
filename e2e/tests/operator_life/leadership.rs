//! Two operators: one works, the other stands by and takes over, at once after a goodbye and after the Lease's time without one.

use crate::own_operator::{OwnOperator, forget_logs};
use anyhow::{Context, Result};
use e2e::{Cluster, Scenario, Test, Verdict, measurement, operator::StoppedOperator};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use serde_json::json;
use std::time::Instant;

/// Whoever waits for this one to run out waits for ever.
const LONG: [&str; 8] =
    ["--lease-name", "two-operators", "--lease-duration", "1h", "--lease-renew-interval", "1s", "--log-filter", "info"];
const SHORT: [&str; 8] =
    ["--lease-name", "two-operators", "--lease-duration", "4s", "--lease-renew-interval", "1s", "--log-filter", "info"];

#[test]
fn of_two_operators_only_the_leader_writes_and_the_other_takes_over() -> Result<()> {
    let scenario = Scenario::named("of-two-operators-only-the-leader-writes");
    scenario.alone("it stops the operator that all other tests need").run(async |test| {
        let stopped = StoppedOperator::stop(test).await?;
        let mut first = OwnOperator::start_with(test, "first", None, &LONG).await?;
        is_led_by(test, "first").await?;
        let mut second = OwnOperator::start_with(test, "second", None, &LONG).await?;
        let led = Cluster::create_unattended(test, "led", json!({})).await?;
        led.ready().await?;
        assert!(!first.proxy.writes().is_empty());
        assert_eq!(second.proxy.writes(), [], "the one that stands by wrote");

        assert_eq!(first.stop(test).await?, Some(0), "a stop that was asked for is no failure");
        let goodbye = Instant::now();
        is_led_by(test, "second").await?;
        measurement::record(test, "leadership after SIGTERM", goodbye.elapsed())?;
        repairs(test).await?;

        let mut third = OwnOperator::start_with(test, "third", None, &SHORT).await?;
        assert_eq!(second.stop(test).await?, Some(0));
        is_led_by(test, "third").await?;
        let mut fourth = OwnOperator::start_with(test, "fourth", None, &SHORT).await?;
        third.kill()?;
        let killed = Instant::now();
        is_led_by(test, "fourth").await?;
        measurement::record(test, "leadership after SIGKILL (Lease of 4 s)", killed.elapsed())?;
        repairs(test).await?;
        assert_eq!(fourth.stop(test).await?, Some(0));
        stopped.start().await?;
        forget_logs(test)
    })
}

async fn is_led_by(test: &Test, name: &str) -> Result<()> {
    let what = format!("{name} to hold the Lease");
    test.wait_for_object::<Lease, _>("two-operators", &what, e2e::PATIENCE, |lease| {
        let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.clone()).unwrap_or_default();
        Verdict::when(holder.starts_with(name), || format!("{holder:?} holds it"))
    })
    .await
}

/// The leader works: what is deleted comes back.
async fn repairs(test: &Test) -> Result<()> {
    let before = test.api::<ConfigMap>().get("led-config").await?.metadata.uid.context("an object has a uid")?;
    test.api::<ConfigMap>().delete("led-config", &Default::default()).await?;
    test.wait_for_object::<ConfigMap, _>("led-config", "the leader to repair", e2e::PATIENCE, |map| {
        let uid = map.and_then(|map| map.metadata.uid.clone());
        Verdict::when(uid.is_some() && uid.as_ref() != Some(&before), || format!("its uid is {uid:?}"))
    })
    .await
}
