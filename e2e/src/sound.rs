//! A whole cluster, by every node's own account: the right number of nodes, each under its pod's address, none failing, all slots served,
//! the operator says Ready, and `valkey-cli --cluster check` has nothing to add.

use crate::{
    cluster::{self, Cluster},
    test::PATIENCE,
    verdict::Verdict,
    view::{self, Line, Topology},
};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kube::ResourceExt;

const SLOTS: u32 = 16384;

/// Waits until the cluster is whole, and gives its topology: the one that was found whole, for the view of a single node can go back to an
/// older role for a moment, when a packet comes late.
pub async fn sound(cluster: &Cluster<'_>, primaries: usize, replicas: usize) -> Result<Topology> {
    let what = format!("{} to be one sound cluster", cluster.name);
    let topology = cluster
        .test
        .wait_for(&what, PATIENCE, async || {
            Ok(match is_whole(cluster, primaries, primaries * (1 + replicas)).await {
                Ok(topology) => Verdict::Met(topology),
                Err(error) => Verdict::NotYet(format!("{error:#}")),
            })
        })
        .await?;
    check(cluster).await?;
    Ok(topology)
}

async fn is_whole(cluster: &Cluster<'_>, primaries: usize, nodes: usize) -> Result<Topology> {
    let object = cluster.get().await?;
    let ready = cluster::condition(&object, "Ready").context("it has no condition Ready")?;
    ensure!(ready.status == "True", "Ready={} {}: {}", ready.status, ready.reason, ready.message);
    ensure!(ready.observed_generation == object.metadata.generation, "Ready is about an earlier generation");
    let pods = cluster.pods().await?;
    let mut addresses: Vec<_> = pods.iter().map(|pod| view::ip(pod).to_owned()).collect();
    addresses.sort();
    ensure!(pods.len() == nodes, "{} pods", pods.len());
    let ending = pods.iter().find(|pod| pod.metadata.deletion_timestamp.is_some());
    ensure!(ending.is_none(), "{} is ending", ending.map(ResourceExt::name_any).unwrap_or_default());
    let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
    let views = try_join_all(names.iter().map(|pod| view::of(cluster, pod))).await?;
    for (pod, view) in names.iter().zip(&views) {
        judge(view, &addresses, primaries).with_context(|| format!("as {pod} sees it"))?;
    }
    Topology::of(&pods, views.first().context("there are no pods")?)
}

fn judge(view: &[Line], addresses: &[String], primaries: usize) -> Result<()> {
    let mut seen: Vec<_> = view.iter().map(|line| line.ip.clone()).collect();
    seen.sort();
    ensure!(seen == addresses, "the nodes are {seen:?}, the pods {addresses:?}");
    for line in view {
        let ill = ["fail", "fail?", "handshake", "noaddr"].into_iter().find(|flag| line.is(flag));
        ensure!(ill.is_none() && line.linked, "{line:?}");
    }
    let owners: Vec<_> = view.iter().filter(|line| line.slots > 0).collect();
    ensure!(owners.len() == primaries && owners.iter().all(|line| line.is("master")), "owners: {owners:?}");
    let served: u32 = owners.iter().map(|line| line.slots).sum();
    ensure!(served == SLOTS, "{served} slots are served");
    let idle = view.iter().find(|line| line.is("master") && line.slots == 0);
    ensure!(idle.is_none(), "a primary without slots: {idle:?}");
    Ok(())
}

/// Valkey's own tool agrees.
pub async fn check(cluster: &Cluster<'_>) -> Result<()> {
    let command = ["valkey-cli", "--cluster", "check", "127.0.0.1:6379"];
    let output = cluster.test.exec_in(&cluster.pod(0), "valkey", &command).await?;
    let passed = output.code == 0 && output.stdout.contains("[OK] All 16384 slots covered.");
    ensure!(passed && !output.stdout.contains("[ERR]"), "--cluster check: {}{}", output.stdout, output.stderr);
    Ok(())
}
