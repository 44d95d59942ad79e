//! Two clusters of one name in two namespaces, both restarted at once so that addresses are dealt out anew: neither ever meets the other.

use crate::formed::{on_volumes, scenario};
use anyhow::{Result, ensure};
use e2e::{Cluster, Test, namespace, sound, view::Topology};

#[test]
fn clusters_of_one_name_in_two_namespaces_never_meet() -> Result<()> {
    scenario("clusters-of-one-name-never-meet").run(async |test| {
        let other = namespace::create(&test.client(), "clusters-of-one-name-the-other", "restricted").await?;
        test.also_collect(&other);
        let outcome = apart(test, &test.beside(&other)).await;
        namespace::delete(&test.client(), &other).await?;
        outcome
    })
}

async fn apart(here: &Test, there: &Test) -> Result<()> {
    let ours = Cluster::create(here, "poc", on_volumes()).await?;
    let theirs = Cluster::create(there, "poc", on_volumes()).await?;
    let (mine, other) = tokio::try_join!(sound(&ours, 3, 0), sound(&theirs, 3, 0))?;
    ensure!(ids(&mine).iter().all(|id| !ids(&other).contains(id)), "they share a node");
    ours.cli(0, &["-c", "set", "whose", "ours"]).await?;
    theirs.cli(0, &["-c", "set", "whose", "theirs"]).await?;
    tokio::try_join!(ours.replace_pods(0..3), theirs.replace_pods(0..3))?;
    let (mine_now, other_now) = tokio::try_join!(sound(&ours, 3, 0), sound(&theirs, 3, 0))?;
    ensure!(ids(&mine_now) == ids(&mine) && ids(&other_now) == ids(&other), "nodes changed sides");
    ensure!(ours.cli(0, &["-c", "get", "whose"]).await? == "ours", "the data changed sides");
    ensure!(theirs.cli(0, &["-c", "get", "whose"]).await? == "theirs", "the data changed sides");
    Ok(())
}

fn ids(topology: &Topology) -> Vec<String> {
    topology.nodes.iter().map(|node| node.id.clone()).collect()
}
