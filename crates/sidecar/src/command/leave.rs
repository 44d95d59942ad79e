//! Leave: this node becomes a new and empty one that knows nobody. What is on its volume becomes that of an empty node too, or the next start
//! would bring the old keys back, and with them the claim to their slots.

use super::{
    execution::{Execution, Stop, Work},
    migrate_slots, neighbour,
};
use crate::{
    boot::{LeaveNote, forget_attached},
    line::server_state::{self, ServerState},
    volume,
};
use sidecar_rules::commands::{
    Need,
    leave::{self, Held, Primary, check, primary_to_ask},
    myself,
};
use std::{io, net::SocketAddr, path::Path, time::Duration};
use tokio::time::sleep;
use topology::{ClusterNodes, NodeId, SlotMove};
use valkey::{Address, CallError, Connection, Info, SlotOwner};

const POLL: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(1);

pub async fn run(execution: &mut Execution<'_>) -> Work {
    let server = execution.observe().await?;
    let nodes = server.nodes.as_ref().ok_or_else(|| Stop::Failed("this server is not in cluster mode".into()))?;
    let primary = match primary_to_ask(nodes).and_then(|primary| primary.address) {
        Some(address) => ask(address).await,
        None => None,
    };
    let held = held(execution, &server, nodes).await?;
    let need = check(nodes, &held, primary.as_ref())?;
    let half_done = on_volume(execution, |folder| Ok(LeaveNote::is_there(folder))).await?;
    if need == Need::Nothing && !half_done {
        return Ok(false);
    }
    if need == Need::Change {
        reset(execution, &myself(nodes)?.id).await?;
    }
    save(execution).await?;
    on_volume(execution, |folder| forget_attached(folder).and_then(|()| LeaveNote::remove(folder))).await?;
    Ok(true)
}

async fn held(execution: &Execution<'_>, server: &ServerState, nodes: &ClusterNodes) -> Result<Held, Stop> {
    Ok(Held {
        keys: server.info.keys(),
        link_up: server.primary_link_up(),
        replication_id: server.position().replication_id,
        migrates: migrates(execution, &server.info).await?,
        may_come: may_come(nodes).await?,
    })
}

/// Keys that are coming are not counted by Valkey, and their slots are not noted.
async fn migrates(execution: &Execution<'_>, info: &Info) -> Result<bool, Stop> {
    if !migrate_slots::moves_by_itself(info) {
        return Ok(false);
    }
    let jobs = execution.connect().await?.cluster_slot_migrations().await?;
    Ok(!info.is_replica() && jobs.iter().any(|job| !job.is_over()))
}

/// The other ends of half moved slots are asked whether they still send them.
async fn may_come(nodes: &ClusterNodes) -> Result<Vec<SlotMove>, Stop> {
    let (myself, mut may_come) = (myself(nodes)?, Vec::new());
    for open in myself.moves.iter().filter(|_| myself.is_primary()) {
        let other = match nodes.find(&open.other).and_then(|node| node.address) {
            Some(address) => neighbour::view_of(address, PATIENCE).await,
            None => None,
        };
        if leave::may_come(&myself.id, open, other.as_ref()) {
            may_come.push(open.clone());
        }
    }
    Ok(may_come)
}

/// What the server at this address says of itself.
pub async fn ask(address: SocketAddr) -> Option<Primary> {
    let mut connection = Connection::open(&Address::Tcp(address), PATIENCE).await.ok()?;
    let server = server_state::read(&mut connection).await.ok()?;
    let (keys, replication_id) = (server.info.keys(), server.position().replication_id);
    Some(Primary { view: server.nodes?, keys, replication_id })
}

/// A replica that was promoted since it was looked at has keys as a primary, and Valkey itself does not reset one of those. Slots without
/// keys it throws away, so they are looked for once more.
async fn reset(execution: &mut Execution<'_>, old: &NodeId) -> Result<(), Stop> {
    let id = old.to_string();
    on_volume(execution, move |folder| LeaveNote::write(folder, &id)).await?;
    let mut connection = execution.connect_until_the_end().await?;
    let nodes = connection.cluster_nodes().await?;
    let now = myself(&nodes)?;
    if !now.slots.is_empty() {
        on_volume(execution, LeaveNote::remove).await?;
        return Err(Stop::unsafe_because(format!("this node owns {} slots now", now.slots.count())));
    }
    // Nobody sends them any more: that was asked before.
    for open in now.moves.iter().filter(|_| now.is_primary()) {
        connection.cluster_set_slot(open.slot, SlotOwner::Stable).await?;
    }
    connection.cluster_reset_hard().await?;
    execution.did("CLUSTER RESET HARD");
    let new = |mut connection: Connection| async move {
        let (nodes, keys) = (connection.cluster_nodes().await?, connection.database_size().await?);
        Ok(keys == 0
            && nodes.0.len() == 1
            && nodes.myself().is_some_and(|node| node.id != *old && node.slots.is_empty()))
    };
    execution.until("this node is new, empty and alone", new).await
}

async fn save(execution: &mut Execution<'_>) -> Result<(), Stop> {
    let mut connection = execution.connect_until_the_end().await?;
    retried(execution, &mut connection, &["SAVE"]).await?;
    let journal = connection.config_get(&["appendonly"]).await?;
    if journal.get("appendonly").is_some_and(|value| value == "yes") {
        // One that began before the reset still has the keys.
        rewritten(execution, &mut connection).await?;
        retried(execution, &mut connection, &["BGREWRITEAOF"]).await?;
        let info = rewritten(execution, &mut connection).await?;
        if info.text("aof_last_bgrewrite_status") != Some("ok") {
            return Err(Stop::Failed("the append-only file could not be written anew after the reset".into()));
        }
    }
    execution.did("saved the empty node");
    Ok(())
}

/// Valkey refuses while it saves in the background.
async fn retried(execution: &Execution<'_>, connection: &mut Connection, command: &[&str]) -> Result<(), Stop> {
    loop {
        match connection.call(command).await {
            Err(CallError::Refused(_)) if execution.left() > POLL => sleep(POLL).await,
            answered => return Ok(answered.map(drop)?),
        }
    }
}

async fn rewritten(execution: &Execution<'_>, connection: &mut Connection) -> Result<Info, Stop> {
    loop {
        let info = connection.info(&["persistence"]).await?;
        if !info.flag("aof_rewrite_in_progress") && !info.flag("aof_rewrite_scheduled") {
            return Ok(info);
        }
        if execution.left().is_zero() {
            return Err(Stop::Late("the append-only file is still being written anew".into()));
        }
        sleep(POLL).await;
    }
}

async fn on_volume<T: Send + 'static>(
    execution: &Execution<'_>,
    task: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, Stop> {
    let folder = execution.context.data_dir.clone();
    let worked = volume::work_within(execution.left(), move || task(&folder)).await.flatten();
    worked.map_err(|error| Stop::Failed(format!("the volume: {error}")))
}
