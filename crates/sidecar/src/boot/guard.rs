//! The boot guard: while Valkey is down it gathers the facts, has `sidecar_rules::boot` decide, and lets a waiting Valkey read
//! its configuration. IO; one task, started by `main`.

use super::{
    disk_facts::DiskFacts,
    error_log::ErrorLog,
    fifo::{self, FifoError, Served},
    gate::Gate,
    inquiry::Inquiry,
    nodes_conf,
    set_aside::set_aside,
    shard_ids, status,
    stop_note::{StopNote, StopNotes},
};
use crate::{process::ProcessWatch, state::Shared, volume, withheld};
use api::valkey_version::ValkeyVersion;
use link::{client::Notice, contract::Boot};
use sidecar_rules::boot::{Decision, Facts, Start, better_copy, decide};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    pin::pin,
    time::{Duration, Instant, SystemTime},
};
use tokio::time::sleep;

/// How soon a Valkey that starts is noticed. Looking for one is one failed `open`.
const EAGER: Duration = Duration::from_millis(25);
const PATIENT: Duration = Duration::from_millis(100);
const EAGER_FOR: Duration = Duration::from_secs(30);
/// A Valkey that was let through needs a moment until it can be seen. What is decided meanwhile is about the one after it.
const STARTING: Duration = Duration::from_secs(5);
/// While Valkey runs.
const CALM: Duration = Duration::from_secs(1);
/// For the note of the last stop to be taken away while a Valkey waits.
const NOTE_DEADLINE: Duration = Duration::from_secs(5);
/// Not a parameter of Valkey: it ends with an error instead of starting.
const DISMISSAL: &str = "this-server-does-not-start-now\n";

#[derive(Clone, Debug)]
pub struct BootPaths {
    pub fifo: PathBuf,
    pub conf: PathBuf,
    pub data_dir: PathBuf,
}

pub struct BootGuard {
    pub paths: BootPaths,
    pub gate: Gate,
    pub shared: Shared,
    pub process: ProcessWatch,
    pub notes: StopNotes,
    /// How long the cluster gets to vote for another primary.
    pub patience: Duration,
    /// Of the Valkey beside it, if the pod says.
    pub version: Option<ValkeyVersion>,
    pub errors: ErrorLog,
}

/// What came of an open gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Closed,
    /// What was on the disk has been set aside.
    Afresh,
    /// A Valkey has read its configuration.
    Through,
}

/// What is known of the start that is awaited.
struct Awaited {
    began: Instant,
    /// When the process before it was seen to end.
    ended: Option<SystemTime>,
    disk: DiskFacts,
    inquiry: Option<Inquiry>,
    /// When a Valkey was last let through.
    passed: Option<Instant>,
    /// What nodes.conf has been prepared for since it was read.
    prepared: Prepared,
}

#[derive(Clone, Copy, Debug, Default)]
struct Prepared {
    mended: bool,
    conceded: bool,
}

impl Awaited {
    /// One that was let through a moment ago may own nodes.conf by now.
    fn starting(&self) -> bool {
        self.passed.is_some_and(|passed| passed.elapsed() <= STARTING)
    }
}

impl BootGuard {
    pub async fn run(self) {
        let mut states = self.process.states();
        // Before the first check, a Valkey that runs already would be taken for one that is down.
        let _ = states.wait_for(|state| state.checked).await;
        let mut ended = None;
        loop {
            self.gate.begin();
            self.shared.ask_for_review();
            self.until_alive(ended).await;
            self.runs();
            self.while_alive().await;
            ended = Some(SystemTime::now());
        }
    }

    async fn while_alive(&self) {
        let mut states = self.process.states();
        while self.process.alive() {
            self.note(fifo::ensure(&self.paths.fifo));
            // A server that does not answer may be in CONFIG REWRITE, which reads the file it started from.
            if self.process.now().silent {
                self.note(fifo::serve(&self.paths.fifo, &self.line()).map(drop));
            }
            tokio::select! {
                _ = states.changed() => {}
                () = sleep(CALM) => {}
            }
        }
    }

    async fn until_alive(&self, ended: Option<SystemTime>) {
        let began = Instant::now();
        self.note(fifo::ensure(&self.paths.fifo));
        if let Err(error) = self.notes.complete().await {
            self.errors.log(&error);
        }
        let mut disk = self.disk().await;
        if disk.leftovers {
            self.start_afresh().await;
            disk = self.disk().await;
        }
        let mut awaited = Awaited { began, ended, disk, inquiry: None, passed: None, prepared: Prepared::default() };
        while !self.process.alive() {
            self.note(fifo::ensure(&self.paths.fifo));
            self.step(&mut awaited).await;
            tokio::select! {
                () = self.gate.changed() => {}
                () = sleep(if began.elapsed() < EAGER_FOR { EAGER } else { PATIENT }) => {}
            }
        }
    }

    async fn step(&self, awaited: &mut Awaited) {
        let facts = self.facts(awaited);
        let decision = decide(&facts);
        if !awaited.starting() {
            self.publish(status::boot(&awaited.disk, &decision, better_copy(&facts)));
        }
        match decision {
            Decision::Open { start, concede, .. } => {
                let passage = self.let_through(start, concede, awaited).await;
                if passage == Passage::Through {
                    awaited.passed = Some(Instant::now());
                }
                if passage != Passage::Closed {
                    // What was answered is about the epoch that it may have given up since.
                    (awaited.disk, awaited.inquiry) = (self.disk().await, None);
                    awaited.prepared = Prepared::default();
                }
            }
            Decision::Wait { .. } => {
                self.dismiss_if_asked();
                let node = || awaited.disk.past.node().cloned();
                awaited.inquiry =
                    awaited.inquiry.take().or_else(|| node().map(|node| Inquiry::start(node, self.process.position())));
            }
        }
    }

    /// What is on the disk, and who followed this node when it was last seen, whatever others made it forget. A pod that stops while
    /// its volume hangs does not wait for that.
    async fn disk(&self) -> DiskFacts {
        loop {
            let folder = self.paths.data_dir.clone();
            let mut reading = pin!(volume::work(move || DiskFacts::read(&folder)));
            let read = loop {
                tokio::select! {
                    read = &mut reading => break read,
                    () = self.gate.changed() => self.dismiss_if_asked(),
                }
            };
            match read {
                Ok(mut disk) => {
                    disk.past.remember(&self.process.attached().borrow());
                    return disk;
                }
                Err(error) => self.errors.log(&error),
            }
            sleep(PATIENT).await;
        }
    }

    /// Nothing waits at the gate any more, whatever was last published.
    fn runs(&self) {
        let published = self.shared.lock().boot.clone();
        if let Some(boot) = published.filter(|boot| boot.waiting) {
            self.publish(Boot { waiting: false, reason: "it runs".into(), ..boot });
        }
    }

    fn facts(&self, awaited: &Awaited) -> Facts {
        let (disk, inquiry) = (&awaited.disk, awaited.inquiry.as_ref());
        Facts {
            past: disk.past.clone(),
            data: disk.data,
            complete_until: disk.complete_until,
            ended: awaited.ended.or(disk.last_write),
            clean_stop: disk.clean_stop,
            answers: inquiry.map_or_else(BTreeMap::new, Inquiry::answers),
            asked: inquiry.map_or(Duration::ZERO, Inquiry::asked),
            ordered: self.gate.requests().ordered,
            waited: awaited.began.elapsed(),
            patience: self.patience,
        }
    }

    async fn let_through(&self, start: Start, concede: bool, awaited: &mut Awaited) -> Passage {
        let starting = awaited.starting();
        if !self.gate.requests().conf_is_current || (starting && (concede || start == Start::Fresh)) {
            return Passage::Closed;
        }
        if start == Start::Fresh {
            return self.start_afresh().await;
        }
        // Meanwhile an order may have been taken back: it is decided again before anybody is let through.
        match self.prepare(concede, awaited).await {
            true => Passage::Closed,
            false => self.serve(&awaited.disk).await,
        }
    }

    /// True when nodes.conf had to be changed first.
    async fn prepare(&self, concede: bool, awaited: &mut Awaited) -> bool {
        let starting = awaited.starting();
        if concede && !awaited.prepared.conceded {
            match self.on_volume(nodes_conf::concede).await {
                Ok(()) => awaited.prepared.conceded = true,
                Err(error) => self.errors.log(&error),
            }
            return true;
        }
        if starting || awaited.prepared.mended || !self.needs_mending() {
            return false;
        }
        self.mend_shard_ids().await;
        awaited.prepared.mended = true;
        true
    }

    /// Work on the data folder, away from the thread that answers probes.
    async fn on_volume<T, E>(&self, task: impl FnOnce(&Path) -> Result<T, E> + Send + 'static) -> io::Result<T>
    where
        T: Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        let folder = self.paths.data_dir.clone();
        volume::work(move || task(&folder)).await?.map_err(io::Error::other)
    }

    async fn serve(&self, disk: &DiskFacts) -> Passage {
        match self.serve_without_note(disk).await {
            Ok(Served::Read) => {
                tracing::info!("Valkey got its configuration");
                self.gate.served();
                Passage::Through
            }
            Ok(Served::NoReader) => Passage::Closed,
            Err(error) => {
                self.note(Err(error));
                Passage::Closed
            }
        }
    }

    /// The note is about the stop before this start: left there, it would make a later crash look like a stop in order. It is
    /// kept as long as no Valkey starts, for the pod that stopped is still here when its Valkey has gone.
    async fn serve_without_note(&self, disk: &DiskFacts) -> Result<Served, FifoError> {
        let text = format!("{}{}", self.line(), withheld::lines(&disk.past));
        if !disk.has_note {
            return fifo::serve(&self.paths.fifo, &text);
        }
        let Some(reader) = fifo::reader(&self.paths.fifo)? else { return Ok(Served::NoReader) };
        // The reader waits meanwhile, and would read nothing at all if this process ended: not for long.
        let folder = self.paths.data_dir.clone();
        let removed = volume::work_within(NOTE_DEADLINE, move || StopNote::remove(&folder).map_err(io::Error::other));
        match removed.await.flatten() {
            Ok(()) => reader.send(&text),
            Err(error) => {
                self.errors.log(&error);
                reader.send(DISMISSAL).map(|_| Served::NoReader)
            }
        }
    }

    /// Valkey 8 does not start with what it wrote itself in the first moments of a cluster.
    fn needs_mending(&self) -> bool {
        let asked_for = self.shared.settings().borrow().as_ref().map(|settings| settings.valkey_version);
        self.version.or(asked_for).is_some_and(|version| !version.at_least(9, 0))
    }

    async fn mend_shard_ids(&self) {
        match self.on_volume(shard_ids::mend).await {
            Ok(true) => tracing::warn!("nodes.conf named two shards for one pair of primary and replica; mended"),
            Ok(false) => {}
            Err(error) => self.errors.log(&error),
        }
    }

    /// Without a past the gate opens by itself, once the configuration has been rendered for an empty folder.
    async fn start_afresh(&self) -> Passage {
        match self.on_volume(set_aside).await {
            Ok(folder) => {
                tracing::warn!(?folder, "this node starts afresh; what it had is set aside");
                self.gate.served();
                self.gate.conf_outdated();
                self.shared.ask_for_review();
            }
            Err(error) => self.errors.log(&error),
        }
        Passage::Afresh
    }

    fn dismiss_if_asked(&self) {
        if self.gate.requests().dismissed && matches!(fifo::serve(&self.paths.fifo, DISMISSAL), Ok(Served::Read)) {
            tracing::info!("the pod stops; a Valkey that waited at the gate was told to end");
            self.gate.served();
        }
    }

    fn line(&self) -> String {
        format!("include {}\n", self.paths.conf.display())
    }

    fn publish(&self, boot: Boot) {
        let mut state = self.shared.lock();
        if state.boot.as_ref() == Some(&boot) {
            return;
        }
        tracing::info!(waiting = boot.waiting, reason = %boot.reason, "the gate before Valkey");
        state.boot = Some(boot);
        drop(state);
        self.shared.notify_operator(Notice::Changed);
    }

    fn note(&self, result: Result<(), FifoError>) {
        if let Err(error) = result {
            self.errors.log(&error);
        }
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
