//! SetConfigEpoch: a new node gets an epoch of its own before it meets others.

use super::execution::{Execution, Stop, Work};
use link::contract;
use sidecar_rules::commands::{Need, set_config_epoch};

pub async fn run(execution: &mut Execution<'_>, wanted: &contract::SetConfigEpoch) -> Work {
    let epoch = wanted.config_epoch;
    let server = execution.observe().await?;
    let cluster = server.cluster.ok_or_else(|| Stop::Failed("this server is not in cluster mode".into()))?;
    if set_config_epoch::check(epoch, cluster.my_epoch, cluster.known_nodes)? == Need::Nothing {
        return Ok(false);
    }
    execution.connect().await?.cluster_set_config_epoch(epoch).await?;
    execution.did(format!("CLUSTER SET-CONFIG-EPOCH {epoch}"));
    let taken =
        |mut connection: valkey::Connection| async move { Ok(connection.cluster_info().await?.my_epoch == epoch) };
    execution.until("the epoch is in force", taken).await?;
    Ok(true)
}
