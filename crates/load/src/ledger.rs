//! What the load has done so far: counts, gaps, latencies, and every acknowledged write. Shared by all workers; IO only through the
//! journal. The report is made from it.

use crate::{
    failure::{self, Failure},
    gap::Gaps,
    histogram::Histogram,
    journal::{self, Journal},
    report::{ErrorCount, Second},
    written::Written,
};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

pub struct Ledger {
    started: Instant,
    next: AtomicU32,
    journal: Option<Journal>,
    entries: Mutex<Entries>,
}

#[derive(Default)]
pub struct Entries {
    pub attempted: u64,
    pub refused: u64,
    pub uncertain: u64,
    pub errors: BTreeMap<String, ErrorCount>,
    pub latency: Histogram,
    pub everywhere: Gaps,
    pub shards: Vec<ShardEntries>,
    pub written: Vec<Written>,
    pub nodes: Vec<SocketAddr>,
    pub seconds: BTreeMap<u64, Second>,
}

#[derive(Default)]
pub struct ShardEntries {
    pub slots: Vec<u16>,
    pub acknowledged: u64,
    pub failed: u64,
    /// Between answers of the primary.
    pub gaps: Gaps,
    /// Between acknowledgements: they wait for replicas when that was asked for.
    pub acknowledgements: Gaps,
}

/// A write that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub sequence: u32,
    pub shard: usize,
    pub slot: u16,
    begun: Instant,
}

impl Ledger {
    pub fn new(shards: Vec<Vec<u16>>, journal: Option<Journal>) -> Self {
        let shards = shards.into_iter().map(|slots| ShardEntries { slots, ..ShardEntries::default() }).collect();
        let entries = Mutex::new(Entries { shards, ..Entries::default() });
        Self { started: Instant::now(), next: AtomicU32::new(0), journal, entries }
    }

    pub fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn attempt(&self, shard: usize, slot: u16) -> Attempt {
        self.entries().attempted += 1;
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        Attempt { sequence, shard, slot, begun: Instant::now() }
    }

    /// The primary has taken it. That ends a gap, and counts for nothing else while its replicas may not have it.
    pub fn answered(&self, attempt: Attempt) {
        let mut entries = self.entries();
        let at = self.elapsed();
        entries.everywhere.heard(at);
        if let Some(shard) = entries.shards.get_mut(attempt.shard) {
            shard.gaps.heard(at);
        }
    }

    pub fn acknowledged(&self, attempt: Attempt, node: SocketAddr) {
        let mut entries = self.entries();
        let (at, latency) = (self.elapsed(), attempt.begun.elapsed());
        let at_ms = u32::try_from(at.as_millis()).unwrap_or(u32::MAX);
        let node_index = journal::index_of(&mut entries.nodes, node);
        let written = Written { sequence: attempt.sequence, slot: attempt.slot, node: node_index, at_ms };
        if let Some(Err(error)) = self.journal.as_ref().map(|journal| journal.append(&written, node)) {
            entries.count("journal".to_owned(), || failure::with_sources(&error));
        }
        entries.written.push(written);
        entries.latency.record(latency);
        entries.second(at).acknowledged += 1;
        if let Some(shard) = entries.shards.get_mut(attempt.shard) {
            shard.acknowledged += 1;
            shard.acknowledgements.heard(at);
        }
    }

    pub fn failed(&self, attempt: Attempt, failure: &Failure) {
        let mut entries = self.entries();
        let at = self.elapsed();
        entries.second(at).failed += 1;
        if failure.is_uncertain() {
            entries.uncertain += 1;
        } else {
            entries.refused += 1;
        }
        if let Some(shard) = entries.shards.get_mut(attempt.shard) {
            shard.failed += 1;
        }
        entries.count(failure.kind(), || failure::with_sources(failure));
    }

    /// Of the shard that has been without an acknowledgement for the longest time.
    pub fn longest_silence(&self) -> Duration {
        let now = self.elapsed();
        self.entries().shards.iter().map(|shard| shard.acknowledgements.silence(now)).max().unwrap_or_default()
    }

    /// From here on silence is no gap any more.
    pub fn close(&self) -> Duration {
        let now = self.elapsed();
        let mut entries = self.entries();
        entries.everywhere.close(now);
        for shard in &mut entries.shards {
            shard.gaps.close(now);
            shard.acknowledgements.close(now);
        }
        now
    }
}

impl Entries {
    fn second(&mut self, at: Duration) -> &mut Second {
        self.seconds.entry(at.as_secs()).or_default()
    }

    fn count(&mut self, kind: String, first: impl FnOnce() -> String) {
        self.errors.entry(kind).or_insert_with(|| ErrorCount { count: 0, first: first() }).count += 1;
    }

    /// One entry for each second from the start to the last in which anything was answered.
    pub fn timeline(&self) -> Vec<Second> {
        let last = self.seconds.last_key_value().map_or(0, |(second, _)| second + 1);
        (0..last).map(|second| self.seconds.get(&second).copied().unwrap_or_default()).collect()
    }
}
