//! The operator restarts, or is gone for a while: its sidecars come back by themselves, and nothing is said that is not so.

use crate::connected::{all_connected, connections, since};
use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, Scenario,
    cluster::lives,
    measurement,
    operator::StoppedOperator,
    replicas::{delete, operator_pods},
};
use serde_json::json;
use std::time::Instant;

#[test]
fn sidecars_return_after_the_operator_restarts_or_was_gone() -> Result<()> {
    let scenario = Scenario::named("sidecars-return-after-the-operator-was-gone");
    scenario.alone("it stops the operator that all other tests need").run(async |test| {
        let cluster = Cluster::create(test, "poc", json!({})).await?;
        all_connected(&cluster, 3).await?;
        let (before, lived) = (cluster.get().await?, lives(&cluster.pods().await?));

        let first = operator_pods(test).await?.pop().context("the operator has a pod")?;
        delete(test, &first).await?;
        let began = Instant::now();
        let second = test.wait_for("another pod of the operator", e2e::test::PATIENCE, async || {
            let other = operator_pods(test).await?.into_iter().find(|pod| *pod != first);
            Ok(other.map_or_else(|| e2e::Verdict::not_yet("there is none"), e2e::Verdict::Met))
        });
        connections(test, &second.await?, 3).await?;
        measurement::record(test, "sidecars back after the operator's pod was deleted", began.elapsed())?;
        all_connected(&cluster, 3).await?;

        let stopped = StoppedOperator::stop(test).await?;
        ensure!(cluster.cli(0, &["ping"]).await? == "PONG", "Valkey does not answer without the operator");
        stopped.start().await?;
        let third = operator_pods(test).await?.pop().context("the operator has a pod")?;
        connections(test, &third, 3).await?;
        all_connected(&cluster, 3).await?;
        ensure!(
            since(&cluster.get().await?) == since(&before),
            "the condition changed although sidecars came back in time"
        );
        ensure!(lives(&cluster.pods().await?) == lived, "a pod was restarted");
        Ok(())
    })
}
