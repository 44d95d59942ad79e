//! A user with a shell in a pod: CONFIG SET, FLUSHALL, CLUSTER FORGET, CLUSTER RESET. The operator mends what is broken, restores what it
//! keeps, and answers none of it with a reset or a flush of its own.

use crate::formed::{formed, loaded, loaded_twice, scenario, stopped_whole};
use anyhow::{Result, ensure};
use e2e::{
    Cluster, Verdict, sound,
    view::{follows, topology},
};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn what_a_user_breaks_by_hand_is_mended_without_a_reset_or_a_flush() -> Result<()> {
    scenario("what-a-user-breaks-by-hand-is-mended").run(async |test| {
        let cluster = formed(test, "poc", "9.1", json!({"config": {"hz": "20"}})).await?;
        let before = topology(&cluster).await?;
        let (primary, _) = before.shard(0)?;
        by_hand(&cluster, &primary.pod, &["config", "set", "hz", "50"]).await?;
        by_hand(&cluster, &primary.pod, &["config", "set", "cluster-node-timeout", "60000"]).await?;
        by_hand(&cluster, &primary.pod, &["flushall"]).await?;
        sound(&cluster, 3, 1).await?;

        let load = loaded_twice(&cluster).await?;
        let (leader, reset) = before.shard(2)?;
        by_hand(&cluster, &reset.pod, &["cluster", "reset", "hard"]).await?;
        let mended = sound(&cluster, 3, 1).await?;
        follows(&mended, &reset.pod, &leader.pod)?;
        ensure!(mended.of_pod(&reset.pod)?.id != reset.id, "a reset node has another id");
        stopped_whole(load).await?;

        cluster.runs_with(6, &[("hz", "20"), ("cluster-node-timeout", "5000")]).await?;
        // Once by the user, and once by the replica that followed.
        let (flushes, resets) = (calls(&cluster, "flushall").await?, calls(&cluster, "cluster|reset").await?);
        ensure!((flushes, resets) == (2, 1), "{flushes} flushes and {resets} resets");
        Ok(())
    })
}

/// So long Valkey does not let a forgotten node come back for good, and tells all others: met meanwhile, it is forgotten again.
const FORGOTTEN: Duration = Duration::from_secs(61);

#[test]
fn a_node_forgotten_by_hand_is_back_as_the_same_node() -> Result<()> {
    scenario("a-node-forgotten-by-hand-is-back").run(async |test| {
        let cluster = formed(test, "poc", "9.1", json!({})).await?;
        let before = topology(&cluster).await?;
        let load = loaded(&cluster).await?;
        let (teller, forgotten) = (before.shard(1)?.0, before.shard(2)?.1);
        by_hand(&cluster, &teller.pod, &["cluster", "forget", &forgotten.id]).await?;
        let told = Instant::now();
        test.wait_for("Valkey's minute to be over", FORGOTTEN * 2, async || {
            Ok(Verdict::when(told.elapsed() > FORGOTTEN, || format!("{:?} are over", told.elapsed())))
        })
        .await?;
        let after = sound(&cluster, 3, 1).await?;
        ensure!(after == before, "it was {before:?} and is {after:?}");
        stopped_whole(load).await?;
        Ok(())
    })
}

async fn by_hand(cluster: &Cluster<'_>, pod: &str, arguments: &[&str]) -> Result<String> {
    cluster.test.note(format!("by hand in {pod}: {arguments:?}"));
    let command: Vec<&str> = std::iter::once("valkey-cli").chain(arguments.iter().copied()).collect();
    cluster.test.exec_in(pod, "valkey", &command).await?.success()
}

/// How often a command was called on all nodes together since they started.
async fn calls(cluster: &Cluster<'_>, command: &str) -> Result<u64> {
    let mut calls = 0;
    for ordinal in 0..6 {
        let statistics = cluster.cli(ordinal, &["info", "commandstats"]).await?;
        let prefix = format!("cmdstat_{command}:calls=");
        let counts =
            statistics.lines().filter_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse::<u64>().ok());
        calls += counts.sum::<u64>();
    }
    Ok(calls)
}
