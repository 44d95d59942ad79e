//! Slot after slot, key after key: for Valkey 8.1, mixed versions and modules. A slot in between stands open on both ends; who wants
//! a key that is gone from here is sent on by ASK.

use super::{
    super::execution::{Execution, Stop},
    key_move::KeyMove,
    other_end::OtherEnd,
};
use futures::future::join_all;
use link::contract::SlotsMoved;
use parking_lot::Mutex;
use sidecar_rules::commands::myself;
use std::collections::VecDeque;
use topology::{NodeId, SlotSet};

/// So many slots are on their way at the same time: while one waits for the replicas of an end, others go on.
const AT_ONCE: usize = 4;

/// After a portion no slot is begun, so that a command ends between two slots.
pub async fn migrate(execution: &mut Execution<'_>, target: &OtherEnd, slots: &SlotSet) -> Result<(), Stop> {
    let me = myself(&execution.nodes().await?)?.id.clone();
    let waiting = Mutex::new(slots.iter().collect());
    let ends = join_all((0..AT_ONCE).map(|_| one_by_one(execution, target, &me, &waiting))).await;
    let (slots, keys) = ends.iter().fold((0, 0), |sum, (moved, _)| (sum.0 + moved.slots, sum.1 + moved.keys));
    if slots > 0 {
        execution.moved(slots, keys);
    }
    execution.did(format!("moved {slots} slots with {keys} keys to {}, key by key", target.id));
    ends.into_iter().try_for_each(|(_, end)| end)
}

/// Until none waits or the time is over. After a failure no other one is begun either.
async fn one_by_one(
    execution: &Execution<'_>,
    target: &OtherEnd,
    me: &NodeId,
    waiting: &Mutex<VecDeque<u16>>,
) -> (SlotsMoved, Result<(), Stop>) {
    let mut moved = SlotsMoved::default();
    let end = async {
        let mut keys = KeyMove::open(execution, target).await?;
        while let Some(slot) = next(waiting) {
            moved = SlotsMoved { slots: moved.slots + 1, keys: moved.keys + keys.move_slot(me, slot).await? };
            if !execution.has_time_for_more() {
                break;
            }
        }
        Ok(())
    };
    let end = end.await.inspect_err(|_| waiting.lock().clear());
    (moved, end)
}

fn next(waiting: &Mutex<VecDeque<u16>>) -> Option<u16> {
    waiting.lock().pop_front()
}
