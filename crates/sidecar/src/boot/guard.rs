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
    stop_note::StopNote,
};
use crate::{process::ProcessWatch, state::Shared};
use api::valkey_version::ValkeyVersion;
use link::{client::Notice, contract::Boot};
use sidecar_rules::boot::{Decision, Facts, Start, decide};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
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

impl BootGuard {
    pub async fn run(self) {
        let mut states = self.process.states();
        // Before the first check, a Valkey that runs already would be taken for one that is down.
        let _ = states.wait_for(|state| state.checked).await;
        loop {
            self.gate.begin();
            self.shared.ask_for_review();
            self.until_alive().await;
            self.runs();
            self.while_alive().await;
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

    async fn until_alive(&self) {
        let began = Instant::now();
        let mut disk = self.disk();
        let mut inquiry = None;
        let mut passed: Option<Instant> = None;
        while !self.process.alive() {
            self.note(fifo::ensure(&self.paths.fifo));
            let decision = decide(&self.facts(&disk, inquiry.as_ref(), began));
            let starting = passed.is_some_and(|passed| passed.elapsed() <= STARTING);
            if !starting {
                self.publish(status::boot(&disk, &decision));
            }
            match decision {
                Decision::Open { start, concede, .. } => {
                    let passage = self.let_through(start, concede, starting);
                    if passage != Passage::Closed {
                        disk = self.disk();
                        // What was answered is about the epoch that it may have given up since.
                        inquiry = None;
                    }
                    if passage == Passage::Through {
                        passed = Some(Instant::now());
                    }
                }
                Decision::Wait { .. } => {
                    self.dismiss_if_asked();
                    inquiry = inquiry.or_else(|| disk.past.node().cloned().map(Inquiry::start));
                }
            }
            tokio::select! {
                () = self.gate.changed() => {}
                () = sleep(if began.elapsed() < EAGER_FOR { EAGER } else { PATIENT }) => {}
            }
        }
    }

    /// What is on the disk, and who followed this node when it was last seen, whatever others made it forget.
    fn disk(&self) -> DiskFacts {
        let mut disk = DiskFacts::read(&self.paths.data_dir);
        disk.past.remember(&self.process.now().attached);
        disk
    }

    /// Nothing waits at the gate any more, whatever was last published.
    fn runs(&self) {
        let published = self.shared.lock().boot.clone();
        if let Some(boot) = published.filter(|boot| boot.waiting) {
            self.publish(Boot { waiting: false, reason: "it runs".into(), ..boot });
        }
    }

    fn facts(&self, disk: &DiskFacts, inquiry: Option<&Inquiry>, began: Instant) -> Facts {
        Facts {
            past: disk.past.clone(),
            data: disk.data,
            snapshot_written: disk.snapshot_written,
            clean_stop: disk.clean_stop,
            answers: inquiry.map_or_else(BTreeMap::new, Inquiry::answers),
            asked: inquiry.map_or(Duration::ZERO, Inquiry::asked),
            ordered: self.gate.requests().ordered,
            waited: began.elapsed(),
            patience: self.patience,
        }
    }

    /// `starting`: one that was let through a moment ago may own nodes.conf by now.
    fn let_through(&self, start: Start, concede: bool, starting: bool) -> Passage {
        if !self.gate.requests().conf_is_current || (starting && (concede || start == Start::Fresh)) {
            return Passage::Closed;
        }
        if start == Start::Fresh {
            return self.start_afresh();
        }
        if concede && let Err(error) = nodes_conf::concede(&self.paths.data_dir) {
            self.errors.log(&error);
            return Passage::Closed;
        }
        if !starting {
            self.mend_shard_ids();
        }
        self.serve()
    }

    fn serve(&self) -> Passage {
        match self.serve_without_note() {
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
    fn serve_without_note(&self) -> Result<Served, FifoError> {
        if !StopNote::is_there(&self.paths.data_dir) {
            return fifo::serve(&self.paths.fifo, &self.line());
        }
        let Some(reader) = fifo::reader(&self.paths.fifo)? else { return Ok(Served::NoReader) };
        match StopNote::remove(&self.paths.data_dir) {
            Ok(()) => reader.send(&self.line()),
            Err(error) => {
                self.errors.log(&error);
                reader.send(DISMISSAL).map(|_| Served::NoReader)
            }
        }
    }

    /// Valkey 8 does not start with what it wrote itself in the first moments of a cluster.
    fn mend_shard_ids(&self) {
        let asked_for = self.shared.settings().borrow().as_ref().map(|settings| settings.valkey_version);
        if self.version.or(asked_for).is_none_or(|version| version.at_least(9, 0)) {
            return;
        }
        match shard_ids::mend(&self.paths.data_dir) {
            Ok(true) => tracing::warn!("nodes.conf named two shards for one pair of primary and replica; mended"),
            Ok(false) => {}
            Err(error) => self.errors.log(&error),
        }
    }

    /// Without a past the gate opens by itself, once the configuration has been rendered for an empty folder.
    fn start_afresh(&self) -> Passage {
        match set_aside(&self.paths.data_dir) {
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
