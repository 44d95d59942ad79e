//! Parameters of `spec.config` on running servers: live where Valkey can, reported where it cannot, and nothing lost by a bad value.

use anyhow::{Context, Result};
use e2e::{Cluster, Scenario, Test, Verdict, cluster, measurement};
use serde_json::json;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const HEALTH: u16 = 8081;

#[test]
fn parameters_are_applied_live_on_valkey_9_1() -> Result<()> {
    Scenario::named("parameters-are-applied-live-on-9-1").run(async |test| live(test, "9.1").await)
}

#[test]
#[ignore = "8.1 here repeats what other tests show on 8.1"]
fn parameters_are_applied_live_on_valkey_8_1() -> Result<()> {
    Scenario::named("parameters-are-applied-live-on-8-1").run(async |test| live(test, "8.1").await)
}

async fn live(test: &Test, version: &str) -> Result<()> {
    let image = json!({"name": cluster::IMAGE, "tag": version});
    let hot = Cluster::create(test, "hot", json!({"valkeyImage": image})).await?;
    hot.ready().await?;
    let lives = cluster::lives(&hot.pods().await?);
    hot.runs_with(3, &[("maxmemory-policy", "noeviction"), ("hz", "10")]).await?;

    hot.edit(json!({"config": {"maxmemory-policy": "allkeys-lru", "hz": "25"}})).await?;
    let started = Instant::now();
    hot.runs_with(3, &[("maxmemory-policy", "allkeys-lru"), ("hz", "25")]).await?;
    measurement::record(test, "a live parameter on all pods", started.elapsed())?;

    hot.edit(json!({"config": {"maxmemory-policy": null, "hz": "30"}})).await?;
    hot.runs_with(3, &[("maxmemory-policy", "noeviction"), ("hz", "30")]).await?;
    hot.edit(json!({"config": null})).await?;
    hot.runs_with(3, &[("hz", "10")]).await?;

    hot.ready().await?;
    hot.says("RestartRequired", "False", Some("NothingPending")).await?;
    assert_eq!(cluster::lives(&hot.pods().await?), lives, "a live parameter restarted something");
    Ok(())
}

#[test]
fn a_parameter_that_needs_a_restart_waits_for_it_and_says_so() -> Result<()> {
    Scenario::named("a-parameter-that-needs-a-restart-waits-for-it").run(async |test| {
        let cold = Cluster::create(test, "cold", json!({"pvc": {"storageSize": "300Mi"}})).await?;
        cold.ready().await?;
        let lives = cluster::lives(&cold.pods().await?);
        cold.edit(json!({"config": {"tcp-backlog": "100", "hz": "20"}})).await?;
        cold.runs_with(3, &[("hz", "20"), ("tcp-backlog", "511")]).await?;
        let waiting = cold.says("RestartRequired", "True", Some("RestartPending")).await?;
        assert!(waiting.message.ends_with(": config.tcp-backlog"), "{}", waiting.message);
        assert_eq!(cluster::lives(&cold.pods().await?), lives, "nobody asked for a restart");
        for ordinal in 0..2 {
            cold.replace_pods([ordinal]).await?;
            cold.says("RestartRequired", "True", Some("RestartPending")).await?;
        }
        cold.replace_pods([2]).await?;
        cold.says("RestartRequired", "False", Some("NothingPending")).await?;
        cold.runs_with(3, &[("hz", "20"), ("tcp-backlog", "100")]).await?;
        cold.ready().await.map(drop)
    })
}

#[test]
fn a_value_that_valkey_refuses_is_reported_and_the_old_one_stays() -> Result<()> {
    Scenario::named("a-value-that-valkey-refuses-is-reported").run(async |test| {
        let picky = Cluster::create(test, "picky", json!({"config": {"maxmemory-policy": "allkeys-lru"}})).await?;
        picky.ready().await?;
        picky.runs_with(3, &[("maxmemory-policy", "allkeys-lru")]).await?;
        picky.edit(json!({"config": {"maxmemory-policy": "nonsense", "hz": "20"}})).await?;
        // The good one of the two takes effect, so the bad one has been tried.
        picky.runs_with(3, &[("hz", "20"), ("maxmemory-policy", "allkeys-lru")]).await?;
        for ordinal in 0..3 {
            let metric = "valkey_sidecar_parameter_refused{parameter=\"maxmemory-policy\"} 1";
            let what = format!("the sidecar of {} to report the refused value", picky.pod(ordinal));
            test.wait_for(&what, e2e::PATIENCE, async || {
                let metrics = page(test, &picky.pod(ordinal), "/metrics").await?;
                Ok(Verdict::when(metrics.contains(metric), || metrics))
            })
            .await?;
        }
        let said = picky.says("Degraded", "True", Some("SettingRefused")).await?;
        assert!(said.message.contains("maxmemory-policy nonsense"), "{}", said.message);
        // A new pod has nothing to fall back to and must come up all the same.
        picky.replace_pods([0]).await?;
        picky.runs_with(1, &[("hz", "20"), ("maxmemory-policy", "noeviction")]).await?;
        picky.edit(json!({"config": {"maxmemory-policy": "volatile-lru"}})).await?;
        picky.says("Degraded", "False", None).await?;
        Ok(())
    })
}

/// What the sidecar answers on its port, body and status line.
pub async fn page(test: &Test, pod: &str, path: &str) -> Result<String> {
    let mut stream = test.connect(pod, HEALTH).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: sidecar\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.context("ask the sidecar")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.context("read the sidecar's answer")?;
    Ok(answer)
}
