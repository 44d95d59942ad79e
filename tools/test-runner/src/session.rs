//! What all parts of a run share: where it takes place, what has come out so far, and the lines people see while it runs. IO.

use crate::{
    outcome::{self, Outcome, Verdict},
    output,
    times::Times,
};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::watch;

const BETWEEN_LINES: Duration = Duration::from_secs(60);
/// Longer than any test gives itself.
const LIMIT: Duration = Duration::from_secs(1000);

pub struct Session {
    pub repository: PathBuf,
    pub target: PathBuf,
    pub logs: PathBuf,
    pub times: Times,
    /// How long a test may run.
    pub limit: Duration,
    /// True from the first Ctrl-C on: nothing new begins, and what runs is asked to end.
    pub interrupted: watch::Sender<bool>,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outcomes: Vec<Outcome>,
    /// How many tests of each part are to run, and how many did.
    parts: BTreeMap<&'static str, (usize, usize)>,
    running: BTreeMap<String, Instant>,
}

impl Session {
    pub fn open() -> Result<Self> {
        let repository =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().context("find the sources")?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
        // As for the waits inside end-to-end tests.
        let patience = std::env::var("TESTBED_PATIENCE").ok().and_then(|value| value.parse().ok()).unwrap_or(1);
        Self::at(repository, target, LIMIT * patience)
    }

    pub fn at(repository: PathBuf, target: PathBuf, limit: Duration) -> Result<Self> {
        let target = std::path::absolute(target).context("find the target directory")?;
        let logs = target.join("test-logs");
        let _ = fs::remove_dir_all(&logs);
        // End-to-end tests add to it.
        let _ = fs::remove_file(target.join("e2e-skipped.txt"));
        fs::create_dir_all(&logs).with_context(|| format!("make {}", logs.display()))?;
        let times = Times::read(&target.join("test-times.json"));
        let (interrupted, _) = watch::channel(false);
        let (started, state) = (Instant::now(), Mutex::default());
        Ok(Self { repository, target, logs, times, limit, interrupted, started, state })
    }

    pub fn is_interrupted(&self) -> bool {
        *self.interrupted.borrow()
    }

    pub fn say(&self, text: &str) {
        println!("[{}] {text}", outcome::clock(self.started.elapsed()));
    }

    pub fn log_of(&self, name: &str) -> PathBuf {
        let word: String = name.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '_' }).collect();
        self.logs.join(format!("{word}.log"))
    }

    /// So many tests of a part are to come; counts them for the lines of progress.
    pub fn expect(&self, part: &'static str, tests: usize) {
        self.state().parts.entry(part).or_default().0 += tests;
    }

    pub fn begin(&self, name: &str) {
        self.state().running.insert(name.to_owned(), Instant::now());
    }

    pub fn end(&self, name: &str) {
        self.state().running.remove(name);
    }

    /// A test has ended.
    pub fn record(&self, part: &'static str, outcome: Outcome) {
        self.say(&outcome::line(&outcome));
        self.count(part, outcome);
    }

    /// A test is not run at all.
    pub fn skip(&self, part: &'static str, name: &str, reason: &str) {
        let (verdict, took) = (Verdict::Skipped(reason.to_owned()), Duration::ZERO);
        self.count(part, Outcome { name: name.to_owned(), verdict, took, log: None, evidence: None });
    }

    fn count(&self, part: &'static str, outcome: Outcome) {
        let mut state = self.state();
        state.running.remove(&outcome.name);
        state.parts.entry(part).or_default().1 += 1;
        state.outcomes.push(outcome);
    }

    /// Prints how far everything is, again and again; ends only by being dropped.
    pub async fn tell_progress(&self) {
        loop {
            tokio::time::sleep(BETWEEN_LINES).await;
            self.say(&progress(&self.state()));
        }
    }

    /// Prints the output of what failed and the account of everything; true when nothing failed and nothing was cut short.
    pub fn close(&self) -> Result<bool> {
        let (outcomes, whole) = (&self.state().outcomes, !self.is_interrupted());
        print!("{}{}", output::of_failures(outcomes), outcome::account(outcomes, self.started.elapsed(), whole));
        self.times.write(outcomes)?;
        Ok(whole && !outcomes.iter().any(Outcome::is_failure))
    }

    #[cfg(test)]
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.state().outcomes.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn progress(state: &State) -> String {
    let under_way = state.parts.iter().filter(|(_, (all, done))| done < all);
    let mut words: Vec<_> = under_way.map(|(part, (all, done))| format!("{part} {done}/{all}")).collect();
    let mut running: Vec<_> = state.running.iter().map(|(name, since)| (since.elapsed().as_secs(), name)).collect();
    running.sort_by(|one, other| other.cmp(one));
    words.extend(
        running.first().map(|(seconds, name)| format!("{} run, longest for {seconds} s: {name}", running.len())),
    );
    words.join("; ")
}
