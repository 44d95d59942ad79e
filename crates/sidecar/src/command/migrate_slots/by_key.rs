//! Key by key, batch after batch: where Valkey does not move slots by itself. A slot in between stands open on both ends; who wants
//! a key that is gone from here is sent on by ASK.

use super::{
    super::execution::{Execution, Stop},
    batch::Ends,
    other_end::OtherEnd,
};
use crate::line::server_state::ServerState;
use sidecar_rules::commands::migrate_slots::{SLOTS_AT_ONCE, keys_at_once, next_batch, portion};
use tokio::time::Instant;

/// `counts`: the slots in order, each with its number of keys. After a portion no batch is begun, so that a command ends between two.
pub async fn migrate(
    execution: &mut Execution<'_>,
    target: &OtherEnd,
    server: &ServerState,
    counts: &[(u16, u64)],
) -> Result<(), Stop> {
    let (mut slots, mut keys) = (0, 0);
    let end = batches(execution, target, server, counts, |moved, sent| {
        slots += moved;
        keys += sent;
    });
    let end = end.await;
    if slots > 0 {
        execution.moved(slots, keys);
    }
    execution.did(format!("moved {slots} slots with {keys} keys to {}, key by key", target.id));
    end
}

async fn batches(
    execution: &Execution<'_>,
    target: &OtherEnd,
    server: &ServerState,
    counts: &[(u16, u64)],
    mut moved: impl FnMut(u32, u64),
) -> Result<(), Stop> {
    let mut ends = Ends::open(execution, target, server, counts.len()).await?;
    let keys = keys_at_once(server.info.number("used_memory_dataset").unwrap_or_default(), server.info.keys());
    let (mut waiting, mut at_once) = (counts, SLOTS_AT_ONCE);
    while !waiting.is_empty() {
        let taken = portion(waiting.get(..at_once).unwrap_or(waiting), keys).slots.iter().count();
        let (now, later) = waiting.split_at(taken.min(waiting.len()));
        let (now, began): (Vec<u16>, _) = (now.iter().map(|(slot, _)| *slot).collect(), Instant::now());
        let done = ends.move_slots(&now).await;
        moved(u32::try_from(done.slots.len()).unwrap_or(u32::MAX), done.keys);
        if let Some(problem) = done.problem {
            return Err(problem);
        }
        (waiting, at_once) = (later, next_batch(at_once, now.len(), began.elapsed()));
        if !execution.has_time_for_more() || execution.context.shared.slot_moves.are_to_end() {
            break;
        }
    }
    Ok(())
}
