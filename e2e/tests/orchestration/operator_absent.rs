//! No operator at all while primaries die and pods are replaced: Valkey and its sidecars do it alone, and the operator finds it done.

use crate::formed::{formed, loaded_twice, on_volumes, promoted, scenario, stopped_whole};
use anyhow::Result;
use e2e::{
    operator::StoppedOperator,
    sound::{check, sound},
    view::topology,
};
use serde_json::json;

#[test]
fn without_an_operator_a_dead_primary_is_replaced() -> Result<()> {
    scenario("without-an-operator-a-dead-primary-is-replaced")
        .alone("it stops the operator that all other tests need")
        .run(async |test| {
            let (old, new) =
                tokio::join!(formed(test, "old", "8.1", on_volumes()), formed(test, "new", "9.1", json!({})));
            let (old, new) = (old?, new?);
            let (old_load, new_load) = (loaded_twice(&old).await?, loaded_twice(&new).await?);
            let stopped = StoppedOperator::stop(test).await?;
            for cluster in [&old, &new] {
                let (victim, heir) = topology(cluster).await?.shard(0)?;
                test.kill_pod(&victim.pod, Some("valkey")).await?;
                promoted(cluster, &heir.pod).await?;
            }
            tokio::try_join!(old_load.flows(), new_load.flows())?;
            let (leaving, heir) = topology(&old).await?.shard(1)?;
            let ordinal: u32 = leaving.pod.rsplit('-').next().unwrap().parse()?;
            old.replace_pods([ordinal]).await?;
            promoted(&old, &heir.pod).await?;
            old_load.flows().await?;
            test.wait_for("--cluster check to pass without an operator", e2e::PATIENCE, async || {
                check(&old).await?;
                check(&new).await?;
                Ok(e2e::Verdict::Met(()))
            })
            .await?;
            stopped.start().await?;
            tokio::try_join!(sound(&old, 3, 1), sound(&new, 3, 1))?;
            tokio::try_join!(stopped_whole(old_load), stopped_whole(new_load))?;
            Ok(())
        })
}
