//! MigrateSlots: slots of this primary go to another one, with their keys; CancelMigration. What an earlier try left open is brought
//! to an end first.

mod atomic;
mod by_key;
mod functions;
mod key_move;
mod open_slots;
mod other_end;
mod settled;

use super::{
    add_slots,
    execution::{Execution, Stop, Work},
};
use crate::line::server_state::ServerState;
use link::contract;
use other_end::OtherEnd;
use sidecar_rules::commands::{
    migrate_slots::{Copies, Portion, Server, Way, check, portion, ready, remaining, way},
    myself,
};
use topology::{NodeId, SlotSet};
use valkey::Info;

/// So many slots are counted in one go.
const COUNTED_AT_ONCE: usize = 512;

pub async fn run(execution: &mut Execution<'_>, ordered: &contract::MigrateSlots) -> Work {
    let wanted = add_slots::slots(&ordered.ranges)?;
    let id = NodeId::new(&ordered.target_node_id);
    check(&execution.nodes().await?, &id, &wanted)?;
    let waited_for = wait_for_job(execution, &id, &wanted).await?;
    open_slots::close_all(execution, &id).await?;
    let left = remaining(&execution.nodes().await?, &id, &wanted)?;
    let target = OtherEnd::find(&execution.nodes().await?, &id)?;
    let copies = prepare(execution, &target, ordered.replicas_at_least, !left.is_empty()).await?;
    if !left.is_empty() && !waited_for && (execution.moved.is_none() || execution.has_time_for_more()) {
        move_some(execution, &target, &left, ordered.keys_at_most.into()).await?;
    }
    let gone = wanted.difference(&execution.nodes().await?.myself().map(|me| me.slots.clone()).unwrap_or_default());
    settled::wait(execution, &target, &gone, copies.online > 0).await?;
    Ok(execution.moved.is_some())
}

pub async fn cancel(execution: &mut Execution<'_>) -> Work {
    let server = execution.observe().await?;
    if !is_able(&server.info) || !atomic::cancel(&mut execution.connect().await?).await? {
        return Ok(false);
    }
    execution.did("CLUSTER CANCELSLOTMIGRATIONS");
    Ok(true)
}

fn is_able(info: &Info) -> bool {
    major_version(info).is_some_and(|version| version >= 9)
}

fn major_version(info: &Info) -> Option<u32> {
    info.text("valkey_version")?.split('.').next()?.parse().ok()
}

/// A job under way is waited for, not doubled; true when it brought wanted slots to the target, which is a portion of its own.
async fn wait_for_job(execution: &mut Execution<'_>, target: &NodeId, wanted: &SlotSet) -> Result<bool, Stop> {
    if !is_able(&execution.observe().await?.info) {
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
async fn prepare(execution: &mut Execution<'_>, target: &OtherEnd, replicas: u32, moves: bool) -> Result<Copies, Stop> {
    let here = execution.observe().await?;
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

async fn move_some(execution: &mut Execution<'_>, target: &OtherEnd, left: &SlotSet, most: u64) -> Result<(), Stop> {
    let taken = take_on(execution, left, most).await?;
    match choose(execution, target).await? {
        Way::Atomic => atomic::migrate(execution, target, &taken).await,
        Way::KeyByKey => by_key::migrate(execution, target, &taken.slots).await,
    }
}

async fn take_on(execution: &Execution<'_>, left: &SlotSet, most: u64) -> Result<Portion, Stop> {
    let slots: Vec<u16> = left.iter().collect();
    let (mut connection, mut counts) = (execution.connect_until_the_end().await?, Vec::new());
    for some in slots.chunks(COUNTED_AT_ONCE) {
        counts.extend(some.iter().copied().zip(connection.cluster_count_keys(some).await?));
        if most > 0 && counts.iter().map(|(_, keys)| keys).sum::<u64>() > most {
            break;
        }
    }
    Ok(portion(&counts, most))
}

/// Both ends and all their replicas are asked what they are.
async fn choose(execution: &mut Execution<'_>, target: &OtherEnd) -> Result<Way, Stop> {
    let here = execution.observe().await?;
    let mut servers = vec![facts(&here)];
    if servers.iter().any(|server| server.major_version.is_none_or(|version| version < 9)) {
        return Ok(Way::KeyByKey);
    }
    servers.push(facts(&target.state(execution).await?));
    let nodes = here.nodes.as_ref().ok_or_else(|| Stop::Failed("this server is not in cluster mode".into()))?;
    let me = myself(nodes)?.id.clone();
    for replica in nodes.replicas_of(&me).chain(nodes.replicas_of(&target.id)) {
        let major_version = other_end::info_of(replica.address).await.as_ref().and_then(major_version);
        servers.push(Server { major_version, ..Server::default() });
    }
    Ok(way(&servers))
}

fn facts(server: &ServerState) -> Server {
    let myself = server.nodes.as_ref().and_then(topology::ClusterNodes::myself);
    Server {
        major_version: major_version(&server.info),
        // Valkey's own Lua is one from 9.1 on, and takes part.
        modules: server.info.modules().into_keys().any(|name| name != "lua"),
        open_slots: myself.is_none_or(|node| !node.moves.is_empty()),
    }
}
