//! Some slots at a time: opened on both ends, emptied, and given to the target. Each step is taken for all of them before the next, so
//! that they wait for the replicas of an end together. Never in a MULTI: that ends a server that has replicas.

use super::{
    super::execution::{Execution, Stop},
    key_move::KeyMove,
    lanes::Lanes,
    other_end::OtherEnd,
};
use crate::{
    line::server_state::ServerState,
    slot_moves::{Opened, history},
};
use sidecar_rules::commands::{
    migrate_slots::{Handing, SLOTS_AT_ONCE, handing},
    myself,
};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, sleep};
use topology::{ClusterNode, NodeId};
use valkey::{Connection, SlotOwner};

const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// What both ends said is out of date after that.
const FRESH: Duration = Duration::from_millis(500);
const TRIES: u32 = 3;

pub struct Ends<'a> {
    execution: &'a Execution<'a>,
    target: &'a OtherEnd,
    me: NodeId,
    history: String,
    here: Lanes<'a>,
    there: Lanes<'a>,
    keys: KeyMove<'a>,
    guard: (Connection, Connection),
}

#[derive(Default)]
pub struct Moved {
    pub slots: Vec<u16>,
    pub keys: u64,
    /// Why not all.
    pub problem: Option<Stop>,
}

impl Moved {
    fn add(&mut self, problem: Option<Stop>) {
        self.problem = self.problem.take().or(problem);
    }
}

impl<'a> Ends<'a> {
    /// `slots`: of the largest batch.
    pub async fn open(
        execution: &'a Execution<'a>,
        target: &'a OtherEnd,
        server: &ServerState,
        slots: usize,
    ) -> Result<Self, Stop> {
        let slots = slots.min(SLOTS_AT_ONCE);
        let (here, there) = tokio::try_join!(Lanes::here(execution, slots), Lanes::there(execution, target, slots))?;
        let history = history(&server.info);
        let nodes = server.nodes.as_ref().ok_or_else(|| Stop::Failed("this server is not in cluster mode".into()))?;
        let me = myself(nodes)?.id.clone();
        let keys = KeyMove::open(execution, target, history.clone()).await?;
        let guard = tokio::try_join!(execution.connect(), target.connect(execution))?;
        Ok(Self { execution, target, me, history, here, there, keys, guard })
    }

    /// Slots of this node go to the target.
    pub async fn move_slots(&mut self, slots: &[u16]) -> Moved {
        match self.open_slots(slots).await {
            Ok((opened, problem)) => {
                let mut moved = self.finish(&opened).await;
                moved.add(problem);
                moved
            }
            Err(problem) => Moved { problem: Some(problem), ..Moved::default() },
        }
    }

    /// Which slots are open now, and why the others are not.
    pub async fn open_slots(&mut self, slots: &[u16]) -> Result<(Vec<u16>, Option<Stop>), Stop> {
        let counts = self.keys.count_there(slots).await?;
        for (slot, keys) in slots.iter().zip(counts) {
            self.note(*slot, keys == 0);
        }
        // Tried once: nothing is open yet.
        let expected = self.there.set(slots, SlotOwner::Importing(&self.me)).await;
        let opened = self.here.set(&expected.done, SlotOwner::Migrating(&self.target.id)).await;
        // No key has gone yet. What is not turned back now, the next command does.
        if !opened.not.is_empty() && !opened.broken {
            self.turn_back(&opened.not).await;
        }
        Ok((opened.done, expected.why.or(opened.why)))
    }

    /// On both ends, as far as they take it.
    pub async fn turn_back(&mut self, slots: &[u16]) -> Option<Stop> {
        let told = self.here.set(slots, SlotOwner::Stable).await;
        let there = self.there.set(&told.done, SlotOwner::Stable).await;
        for slot in &there.done {
            self.execution.context.shared.slot_moves.close(*slot);
        }
        told.why
    }

    /// Both ends are told of open slots, for one of them may not have been told before. The target may own one already. What it expects
    /// from another node is left alone.
    pub async fn open_again(&mut self, slots: &[u16]) -> Result<(Vec<u16>, Option<Stop>), Stop> {
        let view = self.guard.1.cluster_nodes().await?;
        let moves = &self.execution.context.shared.slot_moves;
        for slot in slots.iter().filter(|slot| moves.opened(**slot, &self.target.id, &self.history).is_none()) {
            self.note(*slot, false);
        }
        let node = view.myself();
        let told = |slot: &u16| {
            let noted = |node: &ClusterNode| node.moves.iter().any(|open| open.slot == *slot && open.importing);
            node.is_some_and(|node| node.owns(*slot) || noted(node))
        };
        let (mut told, untold): (Vec<u16>, Vec<u16>) = slots.iter().partition(|slot| told(slot));
        let expected = self.there.set(&untold, SlotOwner::Importing(&self.me)).await;
        told.extend(expected.done);
        let opened = self.here.set(&told, SlotOwner::Migrating(&self.target.id)).await;
        Ok((opened.done, expected.why.or(opened.why)))
    }

    fn note(&self, slot: u16, empty_there: bool) {
        let (target, history, unanswered) = (self.target.id.clone(), self.history.clone(), BTreeSet::new());
        let opened = Opened { target, history, empty_there, to_cut: false, unanswered };
        self.execution.context.shared.slot_moves.open(slot, opened);
    }

    /// The rest of open slots.
    pub async fn finish(&mut self, slots: &[u16]) -> Moved {
        let emptied = self.keys.empty(slots).await;
        let mut moved = self.close(&emptied.slots).await;
        moved.keys = emptied.keys;
        moved.problem = emptied.problem.or(moved.problem);
        moved
    }

    /// Gives the target slots of which this end was seen without keys while they were open. The new owner is told first: the other way
    /// round a slot would have none for a moment.
    pub async fn close(&mut self, slots: &[u16]) -> Moved {
        let (mut moved, mut waiting) = (Moved::default(), slots.to_vec());
        while !waiting.is_empty() {
            let (ready, mut given) = match self.handed(&waiting, &mut moved).await {
                Ok(handed) => handed,
                Err(problem) => {
                    moved.add(Some(problem));
                    return moved;
                }
            };
            let taken = self.there.set(&ready, SlotOwner::Node(&self.target.id)).await;
            given.extend(taken.done);
            let told = self.here.set(&given, SlotOwner::Node(&self.target.id)).await;
            for slot in &told.done {
                self.execution.context.shared.slot_moves.close(*slot);
            }
            moved.slots.extend(told.done);
            waiting = [taken.not, told.not].concat();
            let late = taken.broken || told.broken || self.execution.others_are_late();
            if let Some(why) = taken.why.or(told.why).filter(|why| late || !matches!(why, Stop::Late(_))) {
                moved.add(Some(why));
                return moved;
            }
            if !waiting.is_empty() {
                sleep(BETWEEN_TRIES).await;
            }
        }
        moved
    }

    /// Which of the slots the target may take now, and which it has. This end is asked first: what the target says decides most, and must
    /// be the newest.
    async fn handed(&mut self, slots: &[u16], moved: &mut Moved) -> Result<(Vec<u16>, Vec<u16>), Stop> {
        let mut tries = 0;
        let (here, there) = loop {
            self.guard.0.renew(self.execution.patience());
            self.guard.1.renew(self.execution.patience());
            let here = self.guard.0.cluster_nodes().await?;
            let asked = Instant::now();
            let there = self.guard.1.cluster_nodes().await?;
            if asked.elapsed() < FRESH {
                break (here, there);
            }
            tries += 1;
            if tries == TRIES {
                return Err(Stop::Late(format!("{} answers too slowly to be given slots", self.target.id)));
            }
        };
        let (mut ready, mut given) = (Vec::new(), Vec::new());
        for slot in slots {
            match handing(&here, &there, &self.target.id, *slot) {
                Ok(Handing::Ready) => ready.push(*slot),
                Ok(Handing::Done) => given.push(*slot),
                Err(objection) => moved.add(Some(objection.into())),
            }
        }
        Ok((ready, given))
    }
}
