//! Somebody scales the StatefulSet by hand: the operator sets it right at once, nothing foreign joins and nothing is lost.

use crate::formed::{formed, loaded_twice, on_volumes, scenario};
use anyhow::{Result, ensure};
use e2e::{sound, view::topology};

#[test]
fn a_statefulset_scaled_by_hand_is_set_right_and_nothing_is_lost() -> Result<()> {
    scenario("a-statefulset-scaled-by-hand-is-set-right").run(async |test| {
        let cluster = formed(test, "poc", "9.1", on_volumes()).await?;
        let before = topology(&cluster).await?;
        let load = loaded_twice(&cluster).await?;
        for replicas in ["8", "4", "0"] {
            test.kubectl(&["scale", "statefulset/poc", &format!("--replicas={replicas}")]).await?.success()?;
            let after = sound(&cluster, 3, 1).await?;
            for node in &before.nodes {
                ensure!(after.of_pod(&node.pod)?.id == node.id, "{} became another node: {after:?}", node.pod);
            }
            load.flows().await?;
        }
        load.stop_sound().await?;
        Ok(())
    })
}
