//! A load from start to report. IO. It has a thread of its own, so that nothing a test does keeps it from writing.

use crate::{
    client::Client,
    failure::with_sources,
    gap::milliseconds,
    journal::{Journal, JournalError, Memory},
    ledger::Ledger,
    options::Options,
    refresh::{self, RefreshError},
    report::Report,
    slot, verification,
    worker::Workshop,
    written::Run,
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
    time::{Instant, sleep},
};

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("no seed was given")]
    NoSeed,
    #[error("could not start the load's thread")]
    Thread { source: io::Error },
    #[error("could not start against {seeds}")]
    Start { seeds: String, source: RefreshError },
    #[error("could not keep a journal")]
    Journal { source: JournalError },
    #[error("the load's thread ended before its report")]
    Ended,
}

/// A load that is running. Dropped without `stop`, it ends without a report.
pub struct Load {
    stop: watch::Sender<bool>,
    ledger: Arc<Ledger>,
    report: oneshot::Receiver<Report>,
}

/// How it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    pub elapsed: Duration,
    pub attempted: u64,
    pub acknowledged: u64,
    pub failed: u64,
    /// Of the shard that has been without an acknowledgement for the longest time.
    pub silent_ms: f64,
}

impl Load {
    /// Returns once the cluster is known and the writing begins.
    pub async fn start(options: Options) -> Result<Self, LoadError> {
        if options.seeds.is_empty() {
            return Err(LoadError::NoSeed);
        }
        let (stop, stopped) = watch::channel(false);
        let (started_sender, started) = oneshot::channel();
        let (report_sender, report) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| LoadError::Thread { source })?;
        let body = move || runtime.block_on(conduct(options, stopped, started_sender, report_sender));
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(body);
        thread.map_err(|source| LoadError::Thread { source })?;
        let ledger = started.await.map_err(|_| LoadError::Ended)??;
        Ok(Self { stop, ledger, report })
    }

    pub fn progress(&self) -> Progress {
        let silent_ms = milliseconds(self.ledger.longest_silence());
        let entries = self.ledger.entries();
        Progress {
            elapsed: self.ledger.elapsed(),
            attempted: entries.attempted,
            acknowledged: entries.written.len() as u64,
            failed: entries.refused + entries.uncertain,
            silent_ms,
        }
    }

    /// Writes nothing more, reads everything back.
    pub async fn stop(self) -> Result<Report, LoadError> {
        self.stop.send_replace(true);
        self.report.await.map_err(|_| LoadError::Ended)
    }
}

async fn conduct(
    options: Options,
    stopped: watch::Receiver<bool>,
    started: oneshot::Sender<Result<Arc<Ledger>, LoadError>>,
    report: oneshot::Sender<Report>,
) {
    let workshop = match prepare(&options, stopped).await {
        Ok(workshop) => workshop,
        Err(error) => return drop(started.send(Err(error))),
    };
    if started.send(Ok(workshop.ledger.clone())).is_ok() {
        let Some(made) = work(&options, workshop).await else { return };
        // Nobody is there to take it when the load was dropped.
        let _dropped = report.send(made);
    }
}

async fn prepare(options: &Options, stopped: watch::Receiver<bool>) -> Result<Workshop, LoadError> {
    let client = Client::new(options.seeds.clone(), options.timeout);
    let covered = client.refresh_until_covered(options.covered_within).await;
    covered.map_err(|source| LoadError::Start { seeds: options.seeds.join(","), source })?;
    let run = Run::new(options.value_size);
    let journal = options.journal.as_ref().map(|path| Journal::create(path, &run)).transpose();
    let journal = journal.map_err(|source| LoadError::Journal { source })?;
    let shards = client.map().shards();
    // Made at the first use, which must not look like a gap.
    slot::tag(0);
    Ok(Workshop {
        client: Arc::new(client),
        ledger: Arc::new(Ledger::new(shards, journal)),
        run: Arc::new(run),
        replicas: options.replicas,
        timeout: options.timeout,
        stopped,
    })
}

/// `None` when nobody waits for the report.
async fn work(options: &Options, mut workshop: Workshop) -> Option<Report> {
    let stall = Arc::new(AtomicU64::new(0));
    let mut workers = employ(options, &workshop);
    let mut keepers = JoinSet::new();
    let (client, ledger) = (workshop.client.clone(), workshop.ledger.clone());
    keepers.spawn(async move { match refresh::keep_current(&client, &ledger).await {} });
    keepers.spawn(watch_itself(stall.clone()));
    let asked = workshop.stopped.wait_for(|stopped| *stopped).await.is_ok();
    let (length, own_stall) = (workshop.ledger.close(), Duration::from_micros(stall.load(Ordering::Relaxed)));
    if !asked {
        return None;
    }
    while workers.join_next().await.is_some() {}
    Some(account(options, &workshop, length, own_stall).await)
}

fn employ(options: &Options, workshop: &Workshop) -> JoinSet<()> {
    let shards: Vec<_> = workshop.ledger.entries().shards.iter().map(|shard| Arc::new(shard.slots.clone())).collect();
    let writers = options.writers.max(shards.len());
    let pace = (options.rate > 0).then(|| Duration::from_secs_f64(writers as f64 / f64::from(options.rate)));
    let mut workers = JoinSet::new();
    for (shard, slots) in shards.iter().enumerate() {
        workers.spawn(workshop.clone().probe(shard, slots.clone(), options.probe_every));
    }
    if options.writers > 0 {
        for (shard, slots) in shards.iter().enumerate().cycle().take(writers) {
            workers.spawn(workshop.clone().write(shard, slots.clone(), pace));
        }
    }
    workers
}

/// Sleeps and sees how much too late it wakes up: the floor under every gap in the report.
async fn watch_itself(stall: Arc<AtomicU64>) {
    const NAP: Duration = Duration::from_millis(5);
    loop {
        let due = Instant::now() + NAP;
        sleep(NAP).await;
        let late = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
        stall.fetch_max(late, Ordering::Relaxed);
    }
}

async fn account(options: &Options, workshop: &Workshop, length: Duration, own_stall: Duration) -> Report {
    let (written, nodes) = {
        let entries = workshop.ledger.entries();
        (entries.written.clone(), entries.nodes.clone())
    };
    let memory = Memory { run: (*workshop.run).clone(), written, nodes };
    let findings = verification::verify(&workshop.client, &memory, options.verified_within).await;
    let entries = workshop.ledger.entries();
    let report = Report::of(&workshop.run.name, length, own_stall, &entries, findings);
    Report { timeline: options.timeline.then(|| entries.timeline()), ..report }
}

/// Reads back what a journal remembers, of a run whose checker is gone.
pub async fn check(seeds: Vec<String>, memory: &Memory, options: &Options) -> Result<Report, LoadError> {
    let client = Client::new(seeds, options.timeout);
    // A cluster that lost a shard for good is checked as far as it answers.
    if let Err(error @ (RefreshError::Resolve { .. } | RefreshError::NobodyAnswered { .. })) =
        client.refresh_until_covered(options.covered_within).await
    {
        return Err(LoadError::Start { seeds: client.seeds.join(","), source: error });
    }
    let ledger = Ledger::new(client.map().shards(), None);
    let findings = tokio::select! {
        findings = verification::verify(&client, memory, options.verified_within) => findings,
        never = refresh::keep_current(&client, &ledger) => match never {},
    };
    let acknowledged = memory.written.len() as u64;
    let report = Report { run: memory.run.name.clone(), attempted: acknowledged, acknowledged, ..Report::default() };
    Ok(report.with(findings))
}

impl LoadError {
    /// The message with those of its sources.
    pub fn in_full(&self) -> String {
        with_sources(self)
    }
}
