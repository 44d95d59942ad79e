//! A primary's process is killed: its replica takes over, and it comes back as a replica. How fast that is, `bench/orchestration` tells.

use crate::{
    form::are_labelled,
    formed::{formed, loaded_twice, promoted, scenario, stopped_whole},
};
use anyhow::Result;
use e2e::{
    PATIENCE, Verdict, sound,
    view::{follows, topology},
};
use serde_json::json;

#[test]
#[ignore = "8.1 here repeats what other tests show on 8.1"]
fn a_killed_process_is_replaced_on_8_1() -> Result<()> {
    survives("8.1", "a-killed-process-is-replaced-on-8-1")
}

#[test]
fn a_killed_process_is_replaced_on_9_1() -> Result<()> {
    survives("9.1", "a-killed-process-is-replaced-on-9-1")
}

fn survives(version: &str, name: &str) -> Result<()> {
    scenario(name).run(async |test| {
        let cluster = formed(test, "poc", version, json!({})).await?;
        let (victim, heir) = topology(&cluster).await?.shard(1)?;
        let load = loaded_twice(&cluster).await?;
        test.kill_pod(&victim.pod, Some("valkey")).await?;
        promoted(&cluster, &heir.pod).await?;
        let healed = sound(&cluster, 3, 1).await?;
        follows(&healed, &victim.pod, &heir.pod)?;
        stopped_whole(load).await?;
        test.wait_for("the labels to follow the roles", PATIENCE, async || {
            let pods = cluster.pods().await?;
            Ok(are_labelled(&healed, &pods).map_or_else(|error| Verdict::NotYet(error.to_string()), Verdict::Met))
        })
        .await
    })
}
