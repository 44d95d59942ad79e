//! A node is off the network while everything on it runs on: the others go on without it, and when it is back there is one primary a shard.

use crate::{
    formed::{formed, loaded, loaded_twice, promoted, stopped_whole},
    node_stopped::{heirs, node_of_a_primary_each, pods_on},
};
use anyhow::{Result, ensure};
use e2e::{Scenario, cluster::lives, sound, view::topology};
use serde_json::json;

#[test]
fn a_node_cut_off_and_healed_leaves_one_primary_a_shard() -> Result<()> {
    let scenario = Scenario::named("a-node-cut-off-and-healed-leaves-one-primary");
    scenario.breaks_nodes().run(async |test| {
        let (old, new) = tokio::join!(formed(test, "old", "8.1", json!({})), formed(test, "new", "9.1", json!({})));
        let (old, new) = (old?, new?);
        let node = node_of_a_primary_each(test, &[&old, &new]).await?;
        let (old_heirs, new_heirs) = (heirs(&old, &node).await?, heirs(&new, &node).await?);
        let lived = lives(&new.pods().await?);
        let away = pods_on(&new, &node).await?;
        let (old_load, new_load) = (loaded_twice(&old).await?, loaded_twice(&new).await?);
        let fault = test.cut_node(&node).await?;
        for (cluster, heirs) in [(&old, &old_heirs), (&new, &new_heirs)] {
            for heir in heirs {
                promoted(cluster, &heir.pod).await?;
            }
        }
        // What the dead primaries' heirs take alone is safe as well.
        let (old_alone, new_alone) = (loaded(&old).await?, loaded(&new).await?);
        new.says("Ready", "False", None).await?;
        fault.mend().await?;
        tokio::try_join!(sound(&old, 3, 1), sound(&new, 3, 1))?;
        tokio::try_join!(stopped_whole(old_load), stopped_whole(new_load))?;
        tokio::try_join!(stopped_whole(old_alone), stopped_whole(new_alone))?;
        ensure!(
            topology(&new).await?.primaries().iter().all(|node| !away.contains(&node.pod)),
            "the cut one leads again"
        );
        ensure!(lives(&new.pods().await?) == lived, "a pod was restarted");
        Ok(())
    })
}
