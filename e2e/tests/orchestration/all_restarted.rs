//! All pods are gone at once and come back under other addresses: with volumes they are the same cluster, with the same roles and data.

use crate::formed::{formed, loaded, on_volumes, scenario};
use anyhow::{Result, ensure};
use e2e::{
    sound,
    view::{self, topology},
};

#[test]
#[ignore = "8.1 here repeats what other tests show on 8.1"]
fn all_pods_restarted_with_new_addresses_are_the_same_cluster_on_8_1() -> Result<()> {
    restarts("8.1", "all-pods-restarted-are-the-same-cluster-on-8-1")
}

#[test]
fn all_pods_restarted_with_new_addresses_are_the_same_cluster_on_9_1() -> Result<()> {
    restarts("9.1", "all-pods-restarted-are-the-same-cluster-on-9-1")
}

fn restarts(version: &str, name: &str) -> Result<()> {
    scenario(name).run(async |test| {
        let cluster = formed(test, "poc", version, on_volumes()).await?;
        let before = topology(&cluster).await?;
        let addresses: Vec<_> = cluster.pods().await?.iter().map(|pod| view::ip(pod).to_owned()).collect();
        let load = loaded(&cluster).await?;
        cluster.replace_pods(0..6).await?;
        let after = sound(&cluster, 3, 1).await?;
        let moved = cluster.pods().await?.iter().all(|pod| !addresses.contains(&view::ip(pod).to_owned()));
        ensure!(moved, "an address stayed, so nothing was shown");
        for node in &before.nodes {
            ensure!(after.of_pod(&node.pod)?.id == node.id, "{} became another node: {after:?}", node.pod);
        }
        let slots = |view: &view::Topology| view.primaries().iter().map(|node| node.slots).sum::<u32>();
        ensure!(slots(&after) == slots(&before), "{after:?}");
        load.flows().await?;
        load.stop_sound().await?;
        Ok(())
    })
}
