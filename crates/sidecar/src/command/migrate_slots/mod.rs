//! MigrateSlots: slots of this primary go to another one, with their keys; CancelMigration. What an earlier try left open is brought
//! to an end first.

mod atomic;
pub(super) mod batch;
mod by_key;
mod functions;
mod key_move;
mod lanes;
mod open_slots;
pub(super) mod other_end;
mod settled;

use super::{
    add_slots,
    execution::{Execution, Stop, Work},
};
use crate::line::server_state::{self, SCRIPTING, ServerState};
use api::valkey_version::ValkeyVersion;
use futures::future::join_all;
use link::contract;
use open_slots::Order;
use other_end::OtherEnd;
use sidecar_rules::commands::{
    migrate_slots::{Copies, Server, Way, check, portion, ready, remaining, way},
    myself,
};
use topology::{ClusterNodes, NodeId, SlotSet};
use valkey::Info;

/// So many slots are counted in one go.
const COUNTED_AT_ONCE: usize = 512;

pub async fn run(execution: &mut Execution<'_>, ordered: &contract::MigrateSlots) -> Work {
    let wanted = add_slots::slots(&ordered.ranges)?;
    let target = NodeId::new(&ordered.target_node_id);
    let order = Order { target: &target, slots: &wanted, replicas: ordered.replicas_at_least };
    let mut server = execution.observe().await?;
    check(nodes_of(&server)?, &target, &wanted)?;
    let waited_for = wait_for_job(execution, &server.info, &target, &wanted).await?;
    let closed = open_slots::close_all(execution, &server, nodes_of(&server)?, &order).await?;
    if waited_for || closed.changed {
        server = execution.observe().await?;
    }
    let most = (!waited_for).then_some(ordered.keys_at_most.into());
    let end = go_on(execution, &server, &order, &closed.stuck, most).await;
    let stuck_all = execution.moved.is_none().then_some(closed.problem).flatten();
    stuck_all.map_or(end, Err)?;
    Ok(execution.moved.is_some())
}

fn nodes_of(server: &ServerState) -> Result<&ClusterNodes, Stop> {
    server.nodes.as_ref().ok_or_else(|| Stop::Failed("this server is not in cluster mode".into()))
}

/// With the slots that are still here, but for those that cannot be closed; `most` keys, `None` when this command has done its part.
async fn go_on(
    execution: &mut Execution<'_>,
    server: &ServerState,
    order: &Order<'_>,
    stuck: &SlotSet,
    most: Option<u64>,
) -> Result<(), Stop> {
    let nodes = nodes_of(server)?;
    let left = remaining(nodes, order.target, order.slots)?.difference(stuck);
    let target = OtherEnd::find(nodes, order.target)?;
    let copies = prepare(execution, server, &target, order.replicas, !left.is_empty()).await?;
    let has_time = execution.moved.is_none() || execution.has_time_for_more();
    let mut gone = order.slots.difference(&myself(nodes)?.slots);
    if let Some(most) = most.filter(|_| has_time && !left.is_empty()) {
        move_some(execution, server, &target, &left, most).await?;
        let after = execution.observe().await?;
        gone = order.slots.difference(&myself(nodes_of(&after)?)?.slots);
    }
    settled::wait(execution, &target, &gone, copies.online > 0).await
}

/// For humans: the operator lets what it began go on.
pub async fn cancel(execution: &mut Execution<'_>) -> Work {
    let server = execution.observe().await?;
    if !moves_by_itself(&server.info) || !atomic::cancel(&mut execution.connect().await?).await? {
        return Ok(false);
    }
    execution.did("CLUSTER CANCELSLOTMIGRATIONS");
    Ok(true)
}

/// Versions that know CLUSTER MIGRATESLOTS.
pub fn moves_by_itself(info: &Info) -> bool {
    version(info).is_some_and(|version| version.at_least(9, 0))
}

fn version(info: &Info) -> Option<ValkeyVersion> {
    info.text("valkey_version")?.parse().ok()
}

/// A job under way is waited for, not doubled; true when it brought wanted slots to the target, which is a portion of its own.
async fn wait_for_job(
    execution: &mut Execution<'_>,
    info: &Info,
    target: &NodeId,
    wanted: &SlotSet,
) -> Result<bool, Stop> {
    if !moves_by_itself(info) {
        return Ok(false);
    }
    let Some(job) = atomic::finish_running(execution).await? else { return Ok(false) };
    let came = job.succeeded() && job.target == *target && job.slots.overlaps(wanted);
    execution
        .did(format!("waited for the migration of {} to {} that was under way: {}", job.slots, job.target, job.state));
    if came {
        execution.moved(job.slots.count(), 0);
    }
    Ok(came)
}

/// What must be so before the first key goes. With nothing to move it is only asked how many replicas have to follow.
async fn prepare(
    execution: &mut Execution<'_>,
    here: &ServerState,
    target: &OtherEnd,
    replicas: u32,
    moves: bool,
) -> Result<Copies, Stop> {
    let there = target.ask(execution).await?;
    let copies = there.copies;
    if moves {
        let here_ok = here.cluster.as_ref().is_some_and(|cluster| cluster.state_ok);
        let wanted = usize::try_from(replicas).unwrap_or(usize::MAX);
        ready(&target.id, &there, here_ok, other_end::copies(&here.info), wanted)?;
        functions::carry(execution, target).await?;
    }
    Ok(copies)
}

async fn move_some(
    execution: &mut Execution<'_>,
    server: &ServerState,
    target: &OtherEnd,
    left: &SlotSet,
    most: u64,
) -> Result<(), Stop> {
    let counts = count(execution, left, most).await?;
    let taken = portion(&counts, most);
    match choose(execution, server, target).await? {
        Way::Atomic => atomic::migrate(execution, target, &taken).await,
        Way::KeyByKey => {
            let taken: Vec<_> = counts.into_iter().filter(|(slot, _)| taken.slots.contains(*slot)).collect();
            by_key::migrate(execution, target, server, &taken).await
        }
    }
}

/// How many keys the first of the slots have; not more of them than are taken on.
async fn count(execution: &Execution<'_>, left: &SlotSet, most: u64) -> Result<Vec<(u16, u64)>, Stop> {
    let slots: Vec<u16> = left.iter().collect();
    let (mut connection, mut counts) = (execution.connect_until_the_end().await?, Vec::new());
    for some in slots.chunks(COUNTED_AT_ONCE) {
        counts.extend(some.iter().copied().zip(connection.cluster_count_keys(some).await?));
        if most > 0 && counts.iter().map(|(_, keys)| keys).sum::<u64>() > most {
            break;
        }
    }
    Ok(counts)
}

/// Both ends and the replicas that follow them are asked what they are.
async fn choose(execution: &Execution<'_>, here: &ServerState, target: &OtherEnd) -> Result<Way, Stop> {
    if !moves_by_itself(&here.info) {
        return Ok(Way::KeyByKey);
    }
    let mut there_connection = target.connect(execution).await?;
    let there = server_state::read(&mut there_connection).await?;
    let mut servers = vec![facts(here), facts(&there)];
    for (server, connection) in servers.iter_mut().zip([&mut execution.connect().await?, &mut there_connection]) {
        let threads = connection.config_get(&["io-threads"]).await?;
        server.io_threads = threads.get("io-threads").and_then(|value| value.parse().ok()).unwrap_or_default();
    }
    let replicas = [&here.info, &there.info].into_iter().flat_map(Info::attached_replicas);
    let asked =
        join_all(replicas.map(|replica| async move { (replica.address, other_end::info_of(replica.address).await) }));
    for (address, info) in asked.await {
        let silent = || Stop::Failed(format!("the replica at {address} gives no answer: slots move when it does"));
        servers.push(Server { version: numbers(&info.ok_or_else(silent)?), ..Server::default() });
    }
    Ok(way(&servers, atomic::in_vain(execution, &target.id).await?))
}

fn facts(server: &ServerState) -> Server {
    let myself = server.nodes.as_ref().and_then(ClusterNodes::myself);
    Server {
        version: numbers(&server.info),
        io_threads: 0,
        // Valkey's own Lua is one from 9.1 on, and takes part.
        modules: server.info.modules().into_keys().any(|name| name != SCRIPTING),
        open_slots: myself.is_none_or(|node| !node.moves.is_empty()),
    }
}

fn numbers(info: &Info) -> Option<(u16, u16, u16)> {
    version(info).map(|version| (version.major, version.minor, version.patch.unwrap_or_default()))
}
