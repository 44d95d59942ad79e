//! One slot after the other to one target, over the same two connections; its keys in pieces that hold neither server up for long.
//!
//! An interrupted MIGRATE leaves keys on both ends: the target took them, and this end keeps them because it did not hear so. Then
//! this end's copies are right. It owns the slot, and for a key that it has it serves clients itself; it sends them on to the target
//! only for keys that it lacks. So the other copies are as old as the MIGRATE, and REPLACE writes over them. That is only known of keys
//! that were not there before that MIGRATE, and as long as this process of Valkey lives (its connection proves it): one that was
//! started again, or promoted, may have brought back keys that had gone already, and then the newer copy may be the other one. Of
//! those only equal copies are written over.

use super::{
    super::execution::{Execution, Stop},
    other_end::OtherEnd,
};
use sidecar_rules::commands::migrate_slots::{batch, silence};
use std::time::Duration;
use tokio::time::sleep;
use topology::NodeId;
use valkey::{CallError, Connection, Migration, SlotOwner};

const LISTED_AT_ONCE: usize = 256;
/// While the target hangs, so do this server and its clients.
const ATTEMPTS: u32 = 2;
/// Then this server's clients get a turn.
const BREATH: Duration = Duration::from_millis(250);
/// Kept for what comes after the last key.
const AFTERWARDS: Duration = Duration::from_millis(200);
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

pub struct KeyMove<'a> {
    execution: &'a Execution<'a>,
    target: &'a OtherEnd,
    here: Connection,
    there: Connection,
}

impl<'a> KeyMove<'a> {
    pub async fn open(execution: &'a Execution<'a>, target: &'a OtherEnd) -> Result<Self, Stop> {
        let (here, there) = (execution.connect_until_the_end().await?, target.connect(execution).await?);
        Ok(Self { execution, target, here, there })
    }

    /// Opens a slot of this node, `me`, and gives it to the target; how many keys that was.
    pub async fn move_slot(&mut self, me: &NodeId, slot: u16) -> Result<u64, Stop> {
        let empty_there = self.there.cluster_count_keys(&[slot]).await? == [0];
        set_slot(self.execution, &mut self.there, slot, SlotOwner::Importing(me)).await?;
        let opened = set_slot(self.execution, &mut self.here, slot, SlotOwner::Migrating(&self.target.id)).await;
        if opened.is_err() {
            // No key has gone yet.
            let _ = self.there.cluster_set_slot(slot, SlotOwner::Stable).await;
        }
        opened?;
        self.finish_slot(slot, empty_there).await
    }

    /// The rest of an open slot; how many keys that was. `only_ours`: whatever the target has of it came from this very process.
    pub async fn finish_slot(&mut self, slot: u16, only_ours: bool) -> Result<u64, Stop> {
        let moved = self.empty(slot, only_ours).await?;
        // The new owner first: the other way round the slot would have none for a moment.
        set_slot(self.execution, &mut self.there, slot, SlotOwner::Node(&self.target.id)).await?;
        set_slot(self.execution, &mut self.here, slot, SlotOwner::Node(&self.target.id)).await?;
        Ok(moved)
    }

    /// Until this end has no key of the slot.
    async fn empty(&mut self, slot: u16, only_ours: bool) -> Result<u64, Stop> {
        let mut moved = 0;
        loop {
            let keys = self.here.cluster_keys_in_slot(slot, LISTED_AT_ONCE).await?;
            if keys.is_empty() {
                return Ok(moved);
            }
            let sizes = self.here.memory_usage(&keys).await?;
            let (mut keys, mut sizes) = (keys.as_slice(), sizes.as_slice());
            while !keys.is_empty() {
                let (now, later) = keys.split_at(batch(sizes).min(keys.len()));
                let (now_sizes, later_sizes) = sizes.split_at(now.len().min(sizes.len()));
                self.send(slot, now, now_sizes.iter().sum(), only_ours).await?;
                moved += now.len() as u64;
                (keys, sizes) = (later, later_sizes);
            }
        }
    }

    async fn send(&mut self, slot: u16, keys: &[Vec<u8>], bytes: u64, only_ours: bool) -> Result<(), Stop> {
        let twice = if only_ours { Vec::new() } else { self.there_already(keys).await? };
        let (twice, once): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(|key| twice.contains(key));
        for key in twice {
            self.send_equal(slot, key, bytes).await?;
        }
        match once.is_empty() {
            true => Ok(()),
            false => self.send_new(slot, &once, bytes).await,
        }
    }

    async fn there_already(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Stop> {
        let there = self.there.exist(keys).await?;
        Ok(keys.iter().zip(there).filter(|(_, there)| *there).map(|(key, _)| key.clone()).collect())
    }

    /// Keys that the target did not have before.
    async fn send_new(&mut self, slot: u16, keys: &[Vec<u8>], bytes: u64) -> Result<(), Stop> {
        let mut last = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                sleep(BREATH).await;
            }
            match self.migrate(slot, keys, silence(bytes, attempt), attempt > 0).await? {
                Migration::Done | Migration::NoKey => return Ok(()),
                Migration::Interrupted(why) => last = why,
                Migration::BusyKey => {
                    return Err(Stop::Failed(format!(
                        "slot {slot} stays open: {} got keys of it meanwhile",
                        self.target.id
                    )));
                }
            }
        }
        Err(Stop::Failed(format!("slot {slot} stays open: its keys did not get to {}: {last}", self.target.id)))
    }

    async fn send_equal(&mut self, slot: u16, key: Vec<u8>, bytes: u64) -> Result<(), Stop> {
        let (here, there) = (self.here.dump(&key, false).await?, self.there.dump(&key, true).await?);
        if here.is_some() && there.is_some() && here != there {
            return Err(Stop::Failed(format!(
                "slot {slot} stays open: key {} is on both ends with different values: compare them with DUMP here and, after \
                 ASKING, on {}, and delete the older one",
                key.escape_ascii(),
                self.target.id
            )));
        }
        match self.migrate(slot, &[key], silence(bytes, 1), true).await? {
            Migration::Interrupted(why) => Err(Stop::Failed(format!("slot {slot} stays open: {why}"))),
            _ => Ok(()),
        }
    }

    async fn migrate(
        &mut self,
        slot: u16,
        keys: &[Vec<u8>],
        silence: Duration,
        replace: bool,
    ) -> Result<Migration, Stop> {
        let left = self.execution.left();
        if left <= AFTERWARDS {
            return Err(Stop::Late(format!(
                "slot {slot} is half moved to {}: the next command finishes it",
                self.target.id
            )));
        }
        Ok(self.here.migrate(self.target.address, keys, silence.min(left), replace).await?)
    }
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
