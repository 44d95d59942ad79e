//! The status is the operator's alone: what somebody else writes into it goes at once, and keeps nothing from being told.

use anyhow::{Result, ensure};
use api::cluster::ValkeyClusterStatus;
use api::names;
use e2e::{Cluster, PATIENCE, Scenario, Test, Verdict};
use kube::ResourceExt;
use serde_json::{Value, json};

#[test]
fn what_somebody_writes_into_a_status_goes() -> Result<()> {
    Scenario::named("what-somebody-writes-into-a-status-goes").run(async |test| {
        let forged = Cluster::create(test, "forged", json!({})).await?;
        let before = forged.ready().await?.status.unwrap_or_default();
        let began = "2026-01-01T00:00:00Z";
        let running = json!({"id": "heal-1", "kind": "Heal", "step": "Begin", "startedAt": began, "stepStartedAt": began, "stepVersion": 1});
        let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "", "lastTransitionTime": began});
        let lies = json!({"plan": "all is well", "orchestration": running, "phase": "Odd", "conditions": [theirs],
            "queue": [{"kind": "Heal", "why": "w", "since": began}], "sidecarUpdate": "none"});
        for (name, lie) in lies.as_object().into_iter().flatten() {
            forge(test, &json!({ name: lie })).await?;
            is_as_before(test, &forged, &before).await?;
        }
        forge(test, &lies).await?;
        is_as_before(test, &forged, &before).await?;
        only_the_operator_owns_it(&forged).await?;
        forged.edit(json!({"paused": true})).await?;
        forged.says("Progressing", "False", Some("Paused")).await.map(drop)
    })
}

async fn forge(test: &Test, status: &Value) -> Result<()> {
    let patch = json!({ "status": status }).to_string();
    test.kubectl(&["patch", "vc", "forged", "--subresource=status", "--type=merge", "-p", &patch]).await?.success()?;
    Ok(())
}

/// Heartbeats go on.
fn without_times(status: &ValkeyClusterStatus) -> Value {
    let mut status = json!(status);
    if let Some(fields) = status.as_object_mut() {
        fields.remove("pods");
    }
    status
}

async fn is_as_before(test: &Test, forged: &Cluster<'_>, before: &ValkeyClusterStatus) -> Result<()> {
    let wanted = without_times(before);
    test.wait_for("the status to be the operator's", PATIENCE, async || {
        let found = without_times(&forged.get().await?.status.unwrap_or_default());
        Ok(Verdict::when(found == wanted, || format!("{found} instead of {wanted}")))
    })
    .await
}

async fn only_the_operator_owns_it(forged: &Cluster<'_>) -> Result<()> {
    let found = forged.get().await?;
    let of_status = found.managed_fields().iter().filter(|entry| entry.subresource.as_deref() == Some("status"));
    let owners: Vec<_> = of_status.map(|entry| (entry.manager.as_deref(), entry.operation.as_deref())).collect();
    ensure!(owners == [(Some(names::MANAGER), Some("Apply"))], "{owners:?}");
    Ok(())
}
