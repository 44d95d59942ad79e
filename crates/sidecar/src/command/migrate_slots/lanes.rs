//! Many SETSLOT at once to one end. Each waits for the end's replicas; at the same time over several connections they wait together, and
//! none gets stuck behind another. IO.

use super::{
    super::execution::{Execution, Stop},
    other_end::OtherEnd,
};
use futures::future::{join_all, try_join_all};
use std::time::Duration;
use valkey::{CallError, Connection, SlotOwner};

const LANES: usize = 16;
/// Valkey gives replicas two seconds for each. When one was in vain, those behind it are not waited for.
const PATIENCE: Duration = Duration::from_millis(2_500);

pub struct Lanes<'a> {
    execution: &'a Execution<'a>,
    connections: Vec<Connection>,
}

/// What became of the slots.
#[derive(Default)]
pub struct Told {
    pub done: Vec<u16>,
    /// Some of them may be done all the same, if `broken`.
    pub not: Vec<u16>,
    /// Why not, of the first.
    pub why: Option<Stop>,
    /// A connection is of no use any more.
    pub broken: bool,
}

impl<'a> Lanes<'a> {
    pub async fn here(execution: &'a Execution<'a>, slots: usize) -> Result<Self, Stop> {
        let connections = try_join_all((0..lanes(slots)).map(|_| execution.connect())).await?;
        Ok(Self { execution, connections })
    }

    pub async fn there(execution: &'a Execution<'a>, target: &OtherEnd, slots: usize) -> Result<Self, Stop> {
        let connections = try_join_all((0..lanes(slots)).map(|_| target.connect(execution))).await?;
        Ok(Self { execution, connections })
    }

    pub async fn set(&mut self, slots: &[u16], owner: SlotOwner<'_>) -> Told {
        let patience = PATIENCE.min(self.execution.patience());
        let share = slots.len().div_ceil(self.connections.len()).max(1);
        let shares = self.connections.iter_mut().zip(slots.chunks(share)).map(|(connection, slots)| async move {
            connection.renew(patience);
            (slots, connection.cluster_set_slots(slots, owner).await)
        });
        let mut told = Told::default();
        for (slots, answers) in join_all(shares).await {
            match answers {
                Ok(answers) => slots.iter().zip(answers).for_each(|(slot, answer)| match answer {
                    Ok(()) => told.done.push(*slot),
                    Err(refusal) => told.failed(&[*slot], in_vain(*slot, CallError::Refused(refusal))),
                }),
                Err(error) => {
                    told.broken = true;
                    told.failed(slots, Stop::Call(error));
                }
            }
        }
        told
    }
}

fn lanes(slots: usize) -> usize {
    slots.clamp(1, LANES)
}

impl Told {
    fn failed(&mut self, slots: &[u16], why: Stop) {
        self.not.extend(slots);
        self.why.get_or_insert(why);
    }
}

fn in_vain(slot: u16, error: CallError) -> Stop {
    match error {
        CallError::Refused(refusal) if refusal.message.starts_with("NOREPLICAS") => {
            Stop::Late(format!("slot {slot}: its replicas did not confirm it in time: {refusal}"))
        }
        error => Stop::Failed(format!("slot {slot}: {error}")),
    }
}
