//! How long the status lags behind the nodes: a replica's link is cut and mended again and again, and each time its own word is
//! compared with the condition. IO.

use crate::Arguments;
use anyhow::{Context, Result};
use api::names::{ROLE_REPLICA, port};
use bench::{cluster::Cluster, numbers::Series, table};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};
use valkey::{Address, Connection};

const PROMISED: Duration = Duration::from_secs(2);
/// Changes per repetition of the other measurements: a percentile needs many.
const CHANGES: usize = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn measure(cluster: &Cluster, arguments: &Arguments) -> Result<()> {
    let replica = cluster.with_role(ROLE_REPLICA).await?;
    let mut lags = Series::default();
    for change in 0..arguments.repetitions * CHANGES {
        let linked = change % 2 == 1;
        set_password(&replica, if linked { "" } else { "wrong" }).await?;
        let (truth, told) = tokio::try_join!(moment(until_linked(&replica, linked)), moment(cluster.in_sync(linked)))?;
        lags.add(told.saturating_duration_since(truth));
    }
    cluster.ready().await?;
    table::progress(&format!("status of {}: worst lag {}", replica.name_any(), table::text(lags.worst())));
    table::percentile("a replica's link lost or back → status", &lags, 99, PROMISED);
    Ok(())
}

async fn moment(event: impl Future<Output = Result<()>>) -> Result<Instant> {
    timeout(PATIENCE, event).await.context("waited in vain")??;
    Ok(Instant::now())
}

/// With a wrong one it cannot follow; its link is cut so that it has to try.
async fn set_password(replica: &Pod, password: &str) -> Result<()> {
    let mut connection = connect(replica).await?;
    connection.config_set(&BTreeMap::from([("primaryauth".to_owned(), password.to_owned())])).await?;
    connection.call(&["CLIENT", "KILL", "TYPE", "primary"]).await?;
    Ok(())
}

async fn until_linked(replica: &Pod, linked: bool) -> Result<()> {
    let mut connection = connect(replica).await?;
    while (connection.info(&["replication"]).await?.text("master_link_status") == Some("up")) != linked {
        sleep(BETWEEN_LOOKS).await;
    }
    Ok(())
}

async fn connect(pod: &Pod) -> Result<Connection> {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).context("the pod has no address")?;
    let address = SocketAddr::new(ip.parse()?, u16::try_from(port::VALKEY)?);
    Ok(Connection::open(&Address::Tcp(address), Duration::from_secs(5)).await?)
}
