//! The first pod is nothing special: when it is made anew, it joins the cluster there is instead of founding another.

use crate::formed::{formed, loaded_twice, scenario, stopped_whole};
use anyhow::{Result, ensure};
use e2e::{sound, view::topology};
use serde_json::json;

#[test]
fn pod_zero_made_anew_joins_the_cluster_it_belongs_to() -> Result<()> {
    scenario("pod-zero-made-anew-joins-its-cluster").run(async |test| {
        let cluster = formed(test, "poc", "9.1", json!({})).await?;
        let before = topology(&cluster).await?;
        let load = loaded_twice(&cluster).await?;
        // Once with whatever role it has, once as what it became.
        for _ in 0..2 {
            cluster.replace_pods([0]).await?;
            let after = sound(&cluster, 3, 1).await?;
            for node in after.nodes.iter().filter(|node| node.pod != cluster.pod(0)) {
                ensure!(before.of_pod(&node.pod)?.id == node.id, "{} became another node: {after:?}", node.pod);
            }
        }
        stopped_whole(load).await?;
        Ok(())
    })
}
