//! Slot after slot, key after key: for Valkey 8.1, mixed versions and modules. A slot in between stands open on both ends; who wants
//! a key that is gone from here is sent on by ASK.

use super::{
    super::execution::{Execution, Stop},
    key_move::KeyMove,
    other_end::OtherEnd,
};
use sidecar_rules::commands::myself;
use std::time::Duration;
use tokio::time::sleep;
use topology::{NodeId, SlotSet};
use valkey::{CallError, Connection, SlotOwner};

const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// After a portion no slot is begun, so that a command ends between two slots.
pub async fn migrate(execution: &mut Execution<'_>, target: &OtherEnd, slots: &SlotSet) -> Result<(), Stop> {
    let me = myself(&execution.nodes().await?)?.id.clone();
    let (mut done, mut keys) = (0_u32, 0);
    for slot in slots.iter() {
        if done > 0 && !execution.has_time_for_more() {
            break;
        }
        let moved = begin(execution, target, &me, slot).await;
        let moved = moved.inspect_err(|_| execution.did(format!("moved {done} slots key by key")))?;
        (done, keys) = (done + 1, keys + moved);
        execution.moved(1, moved);
    }
    execution.did(format!("moved {done} slots with {keys} keys to {}, key by key", target.id));
    Ok(())
}

async fn begin(execution: &Execution<'_>, target: &OtherEnd, me: &NodeId, slot: u16) -> Result<u64, Stop> {
    let mut there = target.connect(execution).await?;
    let empty_there = there.cluster_count_keys(&[slot]).await? == [0];
    set_slot(execution, &mut there, slot, SlotOwner::Importing(me)).await?;
    let mut here = execution.connect_until_the_end().await?;
    if let Err(error) = set_slot(execution, &mut here, slot, SlotOwner::Migrating(&target.id)).await {
        // No key has gone yet.
        let _ = there.cluster_set_slot(slot, SlotOwner::Stable).await;
        return Err(error);
    }
    finish(execution, target, slot, empty_there).await
}

/// The rest of an open slot; how many keys that was. `only_ours`: whatever the target has of it came from this very process.
pub async fn finish(execution: &Execution<'_>, target: &OtherEnd, slot: u16, only_ours: bool) -> Result<u64, Stop> {
    let mut keys = KeyMove::open(execution, target, only_ours).await?;
    let moved = keys.empty(slot).await?;
    let (mut there, mut here) = (target.connect(execution).await?, execution.connect_until_the_end().await?);
    // The new owner first: the other way round the slot would have none for a moment.
    set_slot(execution, &mut there, slot, SlotOwner::Node(&target.id)).await?;
    set_slot(execution, &mut here, slot, SlotOwner::Node(&target.id)).await?;
    Ok(moved)
}

/// Valkey has its replicas confirm this first and gives them two seconds.
pub async fn set_slot(
    execution: &Execution<'_>,
    connection: &mut Connection,
    slot: u16,
    owner: SlotOwner<'_>,
) -> Result<(), Stop> {
    loop {
        match connection.cluster_set_slot(slot, owner).await {
            Err(CallError::Refused(refusal)) if refusal.message.starts_with("NOREPLICAS") => {
                if execution.left() <= BETWEEN_TRIES {
                    return Err(Stop::Late(format!("slot {slot}: {refusal}")));
                }
                sleep(BETWEEN_TRIES).await;
            }
            answered => return Ok(answered?),
        }
    }
}
