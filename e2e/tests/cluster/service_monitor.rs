//! A ServiceMonitor where the Prometheus operator's kinds are missing at first: said, and made as soon as they are there.

use anyhow::{Context, Result};
use e2e::{Cluster, Scenario, Test, Verdict, measurement};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use std::{path::Path, time::Instant};

const DEFINITION: &str = "crd/servicemonitors.monitoring.coreos.com";

#[test]
fn a_service_monitor_is_made_as_soon_as_its_kind_exists() -> Result<()> {
    let scenario = Scenario::named("a-service-monitor-is-made-as-soon-as-its-kind-exists");
    scenario.needs_testbed("it installs and removes definitions of the Prometheus operator").run(async |test| {
        test.kubectl(&["delete", DEFINITION, "--ignore-not-found"]).await?.success()?;
        let monitor = json!({"enabled": true, "interval": "1m", "labels": {"release": "prometheus"}});
        let fields = json!({"exporter": {"enabled": true, "serviceMonitor": monitor}});
        let watched = Cluster::create(test, "watched", fields).await?;
        let said = watched.says("Degraded", "True", Some("ObjectRefused")).await?;
        assert!(said.message.contains("no kind ServiceMonitor"), "{}", said.message);
        let outcome = becomes_possible(test, &watched).await;
        test.kubectl(&["delete", DEFINITION, "--ignore-not-found"]).await?.success()?;
        outcome
    })
}

async fn becomes_possible(test: &Test, watched: &Cluster<'_>) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/test-lib/monitoring-definitions.yaml");
    test.kubectl(&["apply", "-f", &file.display().to_string()]).await?.success()?;
    let installed = Instant::now();
    let made = monitor(test, true).await?.context("it was there a moment ago")?;
    measurement::record(test, "a ServiceMonitor after its kind was installed", installed.elapsed())?;
    assert_eq!(made.data.pointer("/spec/endpoints/0/interval"), Some(&json!("60s")), "{:?}", made.data);
    assert_eq!(
        made.metadata.labels.as_ref().and_then(|labels| labels.get("release")).map(String::as_str),
        Some("prometheus")
    );
    let selected = made.data.pointer("/spec/selector/matchLabels/app.kubernetes.io~1instance").and_then(Value::as_str);
    assert_eq!(selected, Some("watched"));
    watched.ready().await?;
    watched.says("Degraded", "False", Some("AsExpected")).await?;
    watched.edit(json!({"exporter": {"serviceMonitor": {"enabled": false}}})).await?;
    monitor(test, false).await?;
    watched.ready().await.map(drop)
}

/// Waits until it is there, or is not.
async fn monitor(test: &Test, wanted: bool) -> Result<Option<DynamicObject>> {
    let kind = GroupVersionKind::gvk("monitoring.coreos.com", "v1", "ServiceMonitor");
    let resource = ApiResource::from_gvk_with_plural(&kind, "servicemonitors");
    let monitors = Api::<DynamicObject>::namespaced_with(test.client(), &test.namespace, &resource);
    test.wait_for(&format!("the ServiceMonitor to be there: {wanted}"), e2e::PATIENCE, async || {
        let found = monitors.get_opt("watched").await?;
        Ok(if found.is_some() == wanted { Verdict::Met(found) } else { Verdict::not_yet("not so") })
    })
    .await
}
