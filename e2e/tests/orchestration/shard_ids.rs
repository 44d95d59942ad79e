//! Which nodes are one shard is Valkey's to say, by shard ids that nobody but Valkey writes: after failovers each shard is still one.

use crate::formed::{formed, loaded_twice, on_volumes, promoted, scenario, stopped_whole};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, sound, view::topology};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn shards_stay_whole_over_failovers_and_restarts_on_9_1() -> Result<()> {
    scenario("shards-stay-whole-over-failovers-and-restarts").run(async |test| {
        let cluster = formed(test, "poc", "9.1", on_volumes()).await?;
        let before = shards(&cluster, 0).await?;
        let load = loaded_twice(&cluster).await?;
        let (victim, heir) = topology(&cluster).await?.shard(0)?;
        test.kill_pod(&victim.pod, Some("valkey")).await?;
        promoted(&cluster, &heir.pod).await?;
        sound(&cluster, 3, 1).await?;
        cluster.replace_pods([0, 3]).await?;
        sound(&cluster, 3, 1).await?;
        for ordinal in 0..6 {
            let after = shards(&cluster, ordinal).await?;
            ensure!(after == before, "{} sees {after:?}, at first it was {before:?}", cluster.pod(ordinal));
        }
        stopped_whole(load).await?;
        Ok(())
    })
}

/// The ids of the nodes of each shard, as CLUSTER SHARDS of one node groups them.
async fn shards(cluster: &Cluster<'_>, ordinal: u32) -> Result<BTreeSet<BTreeSet<String>>> {
    let answer: Value = serde_json::from_str(&cluster.cli(ordinal, &["--json", "cluster", "shards"]).await?)?;
    let shards = answer.as_array().context("CLUSTER SHARDS answers a list")?;
    let ids = |shard: &Value| {
        let nodes = shard["nodes"].as_array()?;
        nodes.iter().map(|node| node["id"].as_str().map(str::to_owned)).collect::<Option<BTreeSet<_>>>()
    };
    let shards: Option<BTreeSet<_>> = shards.iter().map(ids).collect();
    let shards = shards.context("a shard without nodes")?;
    ensure!(shards.len() == 3 && shards.iter().all(|nodes| nodes.len() == 2), "{answer}");
    Ok(shards)
}
