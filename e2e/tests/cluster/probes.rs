//! Processes that die or hang: each is noticed, told apart and started again, without taking the other container along.

use crate::hot_config::page;
use anyhow::Result;
use e2e::{Cluster, PATIENCE, Scenario, Verdict, measurement, process, ready};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use std::time::Instant;

#[test]
fn a_killed_valkey_comes_back_as_the_same_node() -> Result<()> {
    let scenario = Scenario::named("a-killed-valkey-comes-back-as-the-same-node");
    scenario.needs_testbed("it kills a process on a node").run(async |test| {
        let mortal = Cluster::create(test, "mortal", json!({})).await?;
        mortal.ready().await?;
        let id = mortal.node_id(0).await?;
        test.kill_pod("mortal-0", Some("valkey")).await?;
        let started = Instant::now();
        test.wait_for_object("mortal-0", "Valkey to be back", PATIENCE, restarted("valkey", 1)).await?;
        measurement::record(test, "a killed Valkey is ready again", started.elapsed())?;
        assert_eq!(mortal.node_id(0).await?, id);
        let pod = test.wait_for_object("mortal-0", "the sidecar to be untouched", PATIENCE, ready::pod_ready).await?;
        assert_eq!(restarts(&pod, "sidecar"), 0);
        mortal.ready().await?;
        let warnings = mortal.warnings().await?;
        let loops = warnings.iter().any(|told| told.reason == "ValkeyCrashLooping");
        assert!(!loops, "one end is no crash loop: {warnings:?}");
        Ok(())
    })
}

#[test]
fn a_killed_sidecar_comes_back_and_valkey_goes_on() -> Result<()> {
    let scenario = Scenario::named("a-killed-sidecar-comes-back-and-valkey-goes-on");
    scenario.needs_testbed("it kills a process on a node").run(async |test| {
        let paired = Cluster::create(test, "paired", json!({"config": {"hz": "20"}})).await?;
        paired.ready().await?;
        let run = run_id(&paired).await?;
        test.kill_pod("paired-0", Some("sidecar")).await?;
        let pod = test.wait_for_object("paired-0", "the sidecar to be back", PATIENCE, restarted("sidecar", 1)).await?;
        assert_eq!((restarts(&pod, "valkey"), run_id(&paired).await?), (0, run), "Valkey was restarted too");
        // The new sidecar does its work.
        paired.edit(json!({"config": {"hz": "30"}})).await?;
        paired.runs_with(3, &[("hz", "30")]).await?;
        paired.ready().await.map(drop)
    })
}

#[test]
fn a_hung_valkey_is_told_apart_killed_and_comes_back() -> Result<()> {
    let scenario = Scenario::named("a-hung-valkey-is-told-apart-killed-and-comes-back");
    scenario.needs_testbed("it stops a process on a node").run(async |test| {
        let stuck = Cluster::create(test, "stuck", json!({})).await?;
        stuck.ready().await?;
        let id = stuck.node_id(0).await?;
        let healthy = page(test, "stuck-0", "/valkey/readiness").await?;
        assert!(healthy.starts_with("HTTP/1.1 200") && healthy.contains("\"state\":\"ready\""), "{healthy}");
        process::signal(&test.wait_for_pod("stuck-0").await?, "valkey", "STOP")?;
        let started = Instant::now();
        for path in ["/valkey/readiness", "/valkey/liveness"] {
            let answer = page(test, "stuck-0", path).await?;
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\"state\":\"hung\""), "{path}: {answer}");
        }
        let own = page(test, "stuck-0", "/healthz").await?;
        assert!(own.starts_with("HTTP/1.1 200"), "the sidecar hangs with Valkey: {own}");
        stuck.says("Ready", "False", Some("PodsNotReady")).await?;
        test.wait_for_object("stuck-0", "Valkey to be killed and back", PATIENCE, restarted("valkey", 1)).await?;
        measurement::record(test, "a hung Valkey is ready again", started.elapsed())?;
        assert_eq!(stuck.node_id(0).await?, id);
        stuck.ready().await.map(drop)
    })
}

async fn run_id(cluster: &Cluster<'_>) -> Result<String> {
    let info = cluster.cli(0, &["info", "server"]).await?;
    Ok(info.lines().find(|line| line.starts_with("run_id:")).expect("a server has a run_id").to_owned())
}

fn restarts(pod: &Pod, container: &str) -> i32 {
    process::container_statuses(pod).filter(|status| status.name == container).map(|status| status.restart_count).sum()
}

fn restarted(container: &'static str, times: i32) -> impl Fn(Option<&Pod>) -> Verdict<Pod> {
    move |pod| match pod.map(|pod| restarts(pod, container)) {
        Some(found) if found == times => ready::pod_ready(pod),
        found => Verdict::NotYet(format!("{container} was restarted {found:?} times")),
    }
}
