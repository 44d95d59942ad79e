//! SetConfigEpoch: a new node gets an epoch of its own before it meets anybody.

use super::desk::{Desk, Stop, Work};
use link::contract;

pub async fn run(desk: &mut Desk<'_>, wanted: &contract::SetConfigEpoch) -> Work {
    let epoch = wanted.config_epoch;
    if epoch == 0 {
        return Err(Stop::invalid("config_epoch is 0: epochs begin with 1"));
    }
    let look = desk.look().await?;
    let cluster = look.cluster.ok_or_else(|| Stop::Failed("this server is not in cluster mode".into()))?;
    if cluster.my_epoch == epoch {
        return Ok(false);
    }
    if cluster.my_epoch != 0 || !cluster.is_alone() {
        return Err(Stop::unsafe_because(format!(
            "this node has epoch {} and knows {} nodes: only a node that is new and alone takes an epoch",
            cluster.my_epoch, cluster.known_nodes
        )));
    }
    desk.connect().await?.cluster_set_config_epoch(epoch).await?;
    desk.did(format!("CLUSTER SET-CONFIG-EPOCH {epoch}"));
    let taken =
        |mut connection: valkey::Connection| async move { Ok(connection.cluster_info().await?.my_epoch == epoch) };
    desk.until("the epoch is in force", taken).await?;
    Ok(true)
}
