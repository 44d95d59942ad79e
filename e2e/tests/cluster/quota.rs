//! A quota that is used up: named in the conditions and one Event, the cluster beside it unharmed, and over when there is room again.

use anyhow::Result;
use e2e::{Cluster, Scenario, cluster, measurement};
use k8s_openapi::api::core::v1::{Event, ResourceQuota};
use serde_json::json;
use std::time::{Duration, Instant};

const QUOTA: &str = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: full}
spec: {hard: {pods: '4'}}
";

#[test]
fn a_used_up_quota_is_named_and_harms_nobody_else() -> Result<()> {
    Scenario::named("a-used-up-quota-is-named").run(async |test| {
        let healthy = Cluster::create(test, "healthy", json!({})).await?;
        let since =
            cluster::condition(&healthy.ready().await?, "Ready").map(|ready| ready.last_transition_time.clone());
        test.apply_yaml(QUOTA).await?;
        let poor = Cluster::create(test, "poor", json!({})).await?;
        refused(test).await?;
        let seen = Instant::now();
        let said = poor.says("Degraded", "True", Some("QuotaExceeded")).await?;
        measurement::record(test, "QuotaExceeded after the controller's Event", seen.elapsed())?;
        assert!(said.message.contains("exceeded quota: full"), "{}", said.message);
        test.hold("one Event is enough", Duration::from_secs(8), async || {
            let warnings = poor.warnings().await?;
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            Ok(())
        })
        .await?;
        let unharmed = healthy.ready().await?;
        assert_eq!(cluster::condition(&unharmed, "Ready").map(|ready| ready.last_transition_time.clone()), since);
        test.delete_and_wait::<ResourceQuota>("full").await?;
        // The StatefulSet controller tries again ever later; a touch saves the wait.
        test.kubectl(&["annotate", "statefulset/poor", "e2e.valkey.io/touched=yes"]).await?.success()?;
        poor.ready().await?;
        poor.says("Degraded", "False", Some("AsExpected")).await.map(drop)
    })
}

/// The StatefulSet controller says in Events only that it may not make a pod.
async fn refused(test: &e2e::Test) -> Result<()> {
    test.wait_for_list::<Event, _>("", "the StatefulSet controller to be refused", e2e::PATIENCE, |events| {
        let told = events.iter().any(|event| {
            event.reason.as_deref() == Some("FailedCreate") && event.involved_object.name.as_deref() == Some("poor")
        });
        e2e::Verdict::when(told, || format!("{} events, none of them", events.len()))
    })
    .await
}
