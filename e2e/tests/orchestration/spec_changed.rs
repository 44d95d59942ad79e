//! The spec changes while the cluster is being formed: the formation ends as it must, with the new settings.

use crate::formed::{fields, loaded, scenario, stopped_whole};
use anyhow::Result;
use e2e::{Cluster, Verdict, sound};
use serde_json::json;

#[test]
fn a_spec_changed_during_a_formation_is_followed() -> Result<()> {
    scenario("a-spec-changed-during-a-formation-is-followed").run(async |test| {
        let cluster = Cluster::create(test, "poc", fields("9.1", json!({"replicasPerMaster": 0}))).await?;
        test.wait_for_object::<api::cluster::ValkeyCluster, _>(
            "poc",
            "the formation to begin",
            e2e::PATIENCE,
            |seen| {
                let running = seen.and_then(|seen| seen.status.as_ref()?.orchestration.clone());
                Verdict::when(running.is_some(), || "no orchestration".to_owned())
            },
        )
        .await?;
        cluster.edit(json!({"config": {"hz": "20"}, "readService": {"enabled": true}})).await?;
        cluster.edit(json!({"replicasPerMaster": 1})).await?;
        sound(&cluster, 3, 1).await?;
        cluster.runs_with(6, &[("hz", "20")]).await?;
        stopped_whole(loaded(&cluster).await?).await?;
        Ok(())
    })
}
