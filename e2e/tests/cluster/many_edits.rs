//! A spec that changes faster than it can be followed ends in its last word.

use anyhow::Result;
use e2e::{Cluster, Scenario, measurement};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use serde_json::json;
use std::time::Instant;

#[test]
fn fifty_edits_without_a_pause_end_in_the_last_one() -> Result<()> {
    Scenario::named("fifty-edits-without-a-pause-end-in-the-last-one").run(async |test| {
        let edited = Cluster::create(test, "edited", json!({})).await?;
        edited.ready().await?;
        let started = Instant::now();
        for edit in 1..=50 {
            edited
                .try_edit(json!({"config": {"hz": (10 + edit).to_string()}, "labels": {"edit": edit.to_string()}}))
                .await?;
        }
        measurement::record(test, "50 edits", started.elapsed())?;
        edited.runs_with(3, &[("hz", "60")]).await?;
        let last = edited.ready().await?;
        assert_eq!(last.spec.config.unwrap_or_default().get("hz").map(String::as_str), Some("60"));
        let stateful_set = test.api::<StatefulSet>().get("edited").await?;
        assert_eq!(stateful_set.labels().get("edit").map(String::as_str), Some("50"));
        for pod in edited.pods().await? {
            assert_eq!(pod.labels().get("edit").map(String::as_str), Some("50"), "{}", pod.name_any());
        }
        Ok(())
    })
}
