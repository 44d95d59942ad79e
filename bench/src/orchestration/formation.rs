//! From the request for a cluster to its Ready, and the floor after each of them.

use anyhow::Result;
use api::names::ROLE_PRIMARY;
use bench::{
    bare_pods::{self, Images},
    cluster::Cluster,
    numbers::Series,
    table,
};
use kube::api::DeleteParams;
use std::time::{Duration, Instant};

const PROMISED: Duration = Duration::from_secs(6);
const PROMISED_ABOVE_FLOOR: Duration = Duration::from_secs(3);

/// Leaves a cluster behind that is Ready.
pub async fn measure(cluster: &Cluster, repetitions: usize) -> Result<()> {
    let (mut formed, mut pods, mut bare) = (Series::default(), Series::default(), Series::default());
    for repetition in 1..=repetitions {
        let (ready, pods_ready) = form(cluster).await?;
        let images = Images::of(&cluster.with_role(ROLE_PRIMARY).await?)?;
        cluster.delete().await?;
        let floor = bare_pods::start(&cluster.pods, &images).await?;
        bare_pods::end(&cluster.pods, &DeleteParams::default().grace_period(0)).await?;
        let [all, of_it, below] = [ready, pods_ready, floor].map(table::text);
        table::progress(&format!("formation {repetition}: {all}, its pods {of_it}, bare pods {below}"));
        formed.add(ready);
        pods.add(pods_ready);
        bare.add(floor);
    }
    table::row("floor: six bare pods with a native sidecar Ready", &bare);
    table::promised("ValkeyCluster applied → Ready", &formed, PROMISED);
    table::promised("  above the floor", &formed.above(&bare), PROMISED_ABOVE_FLOOR);
    table::row("  of it until its pods are Ready", &pods);
    form(cluster).await.map(drop)
}

/// Until the cluster is Ready, and until its pods are.
async fn form(cluster: &Cluster) -> Result<(Duration, Duration)> {
    let began = Instant::now();
    cluster.create().await?;
    let timed = async |waiting: Result<()>| waiting.map(|()| began.elapsed());
    tokio::try_join!(async { timed(cluster.ready().await).await }, async { timed(cluster.pods_ready().await).await })
}
