//! The keys of open slots, in pieces that hold neither server up for long; one MIGRATE at a time, for this server serves nobody meanwhile.
//!
//! An interrupted MIGRATE leaves keys on both ends: the target took them, and this end keeps them because it did not hear so. Then
//! this end's copies are right. It owns the slot, and for a key that it has it serves clients itself; it sends them on to the target
//! only for keys that it lacks. So the other copies are as old as the MIGRATE, and REPLACE writes over them. That is only known where the
//! target had no key of the slot before, and as long as this process of Valkey was the primary: one that was started again, or promoted,
//! may have brought back keys that had gone already, and then the newer copy may be the other one. Of those only equal copies are
//! written over.

use super::{
    super::execution::{Execution, Stop},
    other_end::OtherEnd,
};
use sidecar_rules::commands::migrate_slots::{batch, sending};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use valkey::{CallError, Connection, Migration, Tries};

const LISTED_AT_ONCE: usize = 256;
/// Kept for giving the target the slots that are empty.
const AFTERWARDS: Duration = Duration::from_secs(3);
const IDLE: Duration = Duration::from_millis(2);
const NODE_TIMEOUT: &str = "cluster-node-timeout";
const DEFAULT_NODE_TIMEOUT: u64 = 15_000;

pub struct KeyMove<'a> {
    execution: &'a Execution<'a>,
    target: &'a OtherEnd,
    history: String,
    node_timeout: Duration,
    /// No key is sent any more after this.
    until: Instant,
    here: Connection,
    there: Connection,
}

#[derive(Default)]
pub struct Emptied {
    /// This end was seen without a key of them.
    pub slots: Vec<u16>,
    pub keys: u64,
    /// Why not all.
    pub problem: Option<Stop>,
}

/// What ends the move of one slot, or of all.
enum Trouble {
    Slot(Stop),
    All(Stop),
}

impl From<CallError> for Trouble {
    fn from(error: CallError) -> Self {
        Self::All(error.into())
    }
}

type Keys = Vec<(Vec<u8>, u64)>;

impl<'a> KeyMove<'a> {
    pub async fn open(execution: &'a Execution<'a>, target: &'a OtherEnd, history: String) -> Result<Self, Stop> {
        let (mut here, there) = tokio::try_join!(execution.connect_until_the_end(), target.connect(execution))?;
        let configured = here.config_get(&[NODE_TIMEOUT]).await?;
        let configured = configured.get(NODE_TIMEOUT).and_then(|value| value.parse().ok());
        let node_timeout = Duration::from_millis(configured.unwrap_or(DEFAULT_NODE_TIMEOUT));
        let left = execution.left();
        let until = Instant::now() + left.saturating_sub(AFTERWARDS.min(left / 3));
        Ok(Self { execution, target, history, node_timeout, until, here, there })
    }

    pub async fn count_there(&mut self, slots: &[u16]) -> Result<Vec<u64>, Stop> {
        Ok(self.other().cluster_count_keys(slots).await?)
    }

    fn other(&mut self) -> &mut Connection {
        self.there.renew(self.execution.patience());
        &mut self.there
    }

    /// Until this end has no key of the open slots. What stops one of them, such as a key with two values, does not stop the others.
    pub async fn empty(&mut self, slots: &[u16]) -> Emptied {
        let (mut emptied, mut left) = (Emptied::default(), slots.to_vec());
        while !left.is_empty() {
            let listed = match self.listed(&left).await {
                Ok(listed) => listed,
                Err(error) => {
                    emptied.problem = emptied.problem.or(Some(error));
                    break;
                }
            };
            left.clear();
            let before = emptied.keys;
            for (slot, keys) in listed {
                match self.send_all(slot, keys).await {
                    Ok(None) => emptied.slots.push(slot),
                    Ok(Some(sent)) => {
                        emptied.keys += sent;
                        left.push(slot);
                    }
                    Err(Trouble::Slot(problem)) => emptied.problem = emptied.problem.or(Some(problem)),
                    // The other end hangs: each further MIGRATE would hold this server's clients up for nothing.
                    Err(Trouble::All(problem)) => {
                        emptied.problem = Some(problem);
                        return emptied;
                    }
                }
            }
            if before == emptied.keys
                && let Some(slot) = left.first()
            {
                if self.is_to_end() {
                    emptied.problem = emptied.problem.or(Some(self.half_moved(*slot)));
                    break;
                }
                sleep(IDLE).await;
            }
        }
        emptied
    }

    /// When nothing gets on.
    fn is_to_end(&self) -> bool {
        let asked_to = self.execution.context.shared.slot_moves.are_to_end();
        asked_to || self.execution.others_are_late() || Instant::now() >= self.until
    }

    fn half_moved(&self, slot: u16) -> Stop {
        Stop::Late(format!("slot {slot} is half moved to {}: the next command finishes it", self.target.id))
    }

    /// Some keys of each slot, with their sizes; 0 of one that has gone meanwhile, or whose time is over.
    async fn listed(&mut self, slots: &[u16]) -> Result<Vec<(u16, Keys)>, Stop> {
        let lists = self.here.cluster_keys_in_slots(slots, LISTED_AT_ONCE).await?;
        let mut sizes = self.here.memory_usage(&lists.concat()).await?.into_iter();
        let with_sizes = |keys: Vec<Vec<u8>>| keys.into_iter().zip(sizes.by_ref()).collect();
        Ok(slots.iter().copied().zip(lists.into_iter().map(with_sizes)).collect())
    }

    /// How many keys that were; `None` when there was none to send.
    async fn send_all(&mut self, slot: u16, listed: Keys) -> Result<Option<u64>, Trouble> {
        self.see_to_unanswered(slot).await?;
        if listed.is_empty() {
            return Ok(None);
        }
        let (listed, gone): (Keys, Keys) = listed.into_iter().partition(|(_, size)| *size > 0);
        self.clear_away(slot, gone).await?;
        let (keys, sizes): (Vec<_>, Vec<_>) = listed.into_iter().unzip();
        let (mut keys, mut sizes, mut sent) = (keys.as_slice(), sizes.as_slice(), 0);
        while !keys.is_empty() {
            let (now, later) = keys.split_at(batch(sizes).min(keys.len()));
            let (now_sizes, later_sizes) = sizes.split_at(now.len().min(sizes.len()));
            self.send(slot, now, now_sizes.iter().sum()).await?;
            sent += now.len() as u64;
            (keys, sizes) = (later, later_sizes);
        }
        Ok(Some(sent))
    }

    /// Valkey lists keys whose time is over until it comes across them, which may take hours. MIGRATE does, and sends none of them.
    async fn clear_away(&mut self, slot: u16, gone: Keys) -> Result<(), Trouble> {
        if gone.is_empty() {
            return Ok(());
        }
        let (keys, to): (Vec<_>, _) = (gone.into_iter().map(|(key, _)| key).collect(), self.target.address);
        let silence = sending(0, self.node_timeout).silence.min(self.execution.left());
        let end = self.here.migrate(to, &keys, silence, false).await?;
        self.answered(slot, Tries::once(&keys, end), false).await
    }

    /// A key that a client deleted here after its MIGRATE was given up may have come to life on the other end.
    async fn see_to_unanswered(&mut self, slot: u16) -> Result<(), Trouble> {
        let moves = &self.execution.context.shared.slot_moves;
        let opened = moves.opened(slot, &self.target.id, &self.history);
        let Some(opened) = opened.filter(|opened| opened.to_cut) else { return Ok(()) };
        let keys: Vec<_> = opened.unanswered.into_iter().collect();
        self.other().end_migrations_from_here().await?;
        let (here, there) = (self.here.memory_usage(&keys).await?, self.other().exist(&keys).await?);
        let mut only_there = keys.iter().zip(here.iter().zip(there)).filter(|(_, (here, there))| **here == 0 && *there);
        match only_there.next() {
            None => {
                moves.answered(slot);
                Ok(())
            }
            Some((key, _)) => Err(Trouble::Slot(Stop::Failed(format!(
                "slot {slot} stays open: key {} went away here while it was on its way to {}, which has it now: if it was deleted, delete \
                 it there after ASKING; if a client made it anew there, give that node the slot with CLUSTER SETSLOT {slot} NODE, there \
                 and then here, when no other key of it is here",
                key.escape_ascii(),
                self.target.id
            )))),
        }
    }

    async fn send(&mut self, slot: u16, keys: &[Vec<u8>], bytes: u64) -> Result<(), Trouble> {
        let opened = self.execution.context.shared.slot_moves.opened(slot, &self.target.id, &self.history);
        let only_ours = opened.is_some_and(|opened| opened.empty_there);
        let twice = if only_ours { Vec::new() } else { self.there_already(keys).await? };
        if twice.is_empty() {
            return self.migrate(slot, keys, bytes, false).await;
        }
        let (twice, once): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(|key| twice.contains(key));
        for key in twice {
            self.check_equal(slot, &key).await?;
            self.migrate(slot, &[key], bytes, true).await?;
        }
        match once.is_empty() {
            true => Ok(()),
            false => self.migrate(slot, &once, bytes, false).await,
        }
    }

    async fn there_already(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, CallError> {
        let there = self.other().exist(keys).await?;
        Ok(keys.iter().zip(there).filter(|(_, there)| *there).map(|(key, _)| key.clone()).collect())
    }

    async fn check_equal(&mut self, slot: u16, key: &[u8]) -> Result<(), Trouble> {
        let (here, there) = (self.here.dump(key, false).await?, self.other().dump(key, true).await?);
        if here.is_some() && there.is_some() && here != there {
            return Err(Trouble::Slot(Stop::Failed(format!(
                "slot {slot} stays open: key {} is on both ends with different values: compare them with DUMP here and, after \
                 ASKING, on {}, and delete the older one",
                key.escape_ascii(),
                self.target.id
            ))));
        }
        Ok(())
    }

    /// `replace`: the target may have them, and from here.
    async fn migrate(&mut self, slot: u16, keys: &[Vec<u8>], bytes: u64, replace: bool) -> Result<(), Trouble> {
        if Instant::now() >= self.until {
            return Err(Trouble::All(self.half_moved(slot)));
        }
        let sending = sending(bytes, self.node_timeout);
        let (to, silence) = (self.target.address, sending.silence.min(self.execution.left() / 3));
        let opened = self.execution.context.shared.slot_moves.opened(slot, &self.target.id, &self.history);
        let replace = replace || opened.is_some_and(|opened| opened.empty_there && !sending.twice);
        // Without the answer it is not known which keys went; only that more may come.
        self.execution.context.shared.slot_moves.unanswered(slot, &[]);
        let tries = match sending.twice {
            true => self.here.migrate_twice(to, keys, silence, replace).await?,
            false => Tries::once(keys, self.here.migrate(to, keys, silence, replace).await?),
        };
        self.answered(slot, tries, silence < sending.silence).await
    }

    /// Also after a second try that came through: a client that deletes a key there must not see the first try bring it back.
    async fn answered(&mut self, slot: u16, tries: Tries, hurried: bool) -> Result<(), Trouble> {
        let moves = &self.execution.context.shared.slot_moves;
        match tries.given_up {
            true => moves.unanswered(slot, &tries.still_here),
            false => moves.answered(slot),
        }
        self.judge(slot, tries.end, hurried)?;
        self.see_to_unanswered(slot).await
    }

    /// `hurried`: it got less time than it should have.
    fn judge(&self, slot: u16, end: Migration, hurried: bool) -> Result<(), Trouble> {
        match end {
            Migration::Done | Migration::NoKey => Ok(()),
            Migration::Interrupted(why) => {
                let why = format!("slot {slot} stays open: its keys did not get to {}: {why}", self.target.id);
                Err(Trouble::All(if hurried { Stop::Late(why) } else { Stop::Failed(why) }))
            }
            Migration::BusyKey => {
                let why = format!("slot {slot} stays open: {} got keys of it meanwhile", self.target.id);
                Err(Trouble::Slot(Stop::Failed(why)))
            }
            Migration::Refused(refusal) => Err(CallError::Refused(refusal).into()),
        }
    }
}
