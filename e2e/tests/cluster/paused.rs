//! A paused cluster is watched and not touched; resumed, it catches up.

use anyhow::Result;
use e2e::{Cluster, Scenario, Verdict, cluster};
use k8s_openapi::api::{core::v1::ConfigMap, policy::v1::PodDisruptionBudget};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_paused_cluster_is_left_alone_until_it_is_resumed() -> Result<()> {
    Scenario::named("a-paused-cluster-is-left-alone").run(async |test| {
        let calm = Cluster::create(test, "calm", json!({})).await?;
        calm.ready().await?;
        let lives = cluster::lives(&calm.pods().await?);
        calm.edit(json!({"paused": true, "config": {"hz": "20"}})).await?;
        calm.says("Progressing", "False", Some("Paused")).await?;
        test.delete_and_wait::<ConfigMap>("calm-config").await?;
        test.delete_and_wait::<PodDisruptionBudget>("calm").await?;
        test.hold("nobody makes the deleted objects anew", Duration::from_secs(5), async || {
            assert!(test.api::<ConfigMap>().get_opt("calm-config").await?.is_none(), "the ConfigMap is back");
            assert!(test.api::<PodDisruptionBudget>().get_opt("calm").await?.is_none(), "the budget is back");
            Ok(())
        })
        .await?;
        let plan = calm.get().await?.status.and_then(|status| status.plan).unwrap_or_default();
        assert!(plan.starts_with("paused; when resumed: "), "{plan}");
        assert!(plan.contains("create ConfigMap calm-config"), "{plan}");
        calm.edit(json!({"paused": false})).await?;
        calm.runs_with(3, &[("hz", "20")]).await?;
        calm.ready().await?;
        test.wait_for_object::<PodDisruptionBudget, _>("calm", "the budget to be back", e2e::PATIENCE, |budget| {
            Verdict::when(budget.is_some(), || "it is not there".to_owned())
        })
        .await?;
        assert_eq!(cluster::lives(&calm.pods().await?), lives, "a pause restarted something");
        Ok(())
    })
}
