//! What all parts of a run share: where it takes place, what has come out so far, and the lines people see while it runs. IO.

use crate::{
    outcome::{self, Outcome, Verdict},
    times::Times,
};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Lines of a failed test's log that are shown at once.
const EXCERPT: usize = 25;
const BETWEEN_LINES: Duration = Duration::from_secs(30);

pub struct Session {
    pub repository: PathBuf,
    pub target: PathBuf,
    pub logs: PathBuf,
    pub times: Times,
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
        let target = std::path::absolute(target).context("find the target directory")?;
        let logs = target.join("test-logs");
        let _ = fs::remove_dir_all(&logs);
        fs::create_dir_all(&logs).with_context(|| format!("make {}", logs.display()))?;
        let times = Times::read(&target.join("test-times.json"));
        let (interrupted, _) = watch::channel(false);
        Ok(Self { repository, target, logs, times, interrupted, started: Instant::now(), state: Mutex::default() })
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

    pub fn record(&self, part: &'static str, outcome: Outcome) {
        if let Some(text) = outcome::failure(&outcome) {
            self.say(&format!("FAILED\n{text}{}", outcome.log.as_deref().map(excerpt).unwrap_or_default().trim_end()));
        }
        let mut state = self.state();
        state.running.remove(&outcome.name);
        state.parts.entry(part).or_default().1 += 1;
        state.outcomes.push(outcome);
    }

    pub fn skip(&self, part: &'static str, name: &str, reason: &str) {
        let (verdict, took) = (Verdict::Skipped(reason.to_owned()), Duration::ZERO);
        self.record(part, Outcome { name: name.to_owned(), verdict, took, log: None, evidence: None });
    }

    /// Prints how far everything is, again and again; ends only by being dropped.
    pub async fn tell_progress(&self) {
        loop {
            tokio::time::sleep(BETWEEN_LINES).await;
            self.say(&progress(&self.state()));
        }
    }

    /// Prints the account of everything; true when nothing failed and nothing was cut short.
    pub fn close(&self) -> Result<bool> {
        let state = self.state();
        self.times.write(&state.outcomes)?;
        print!("{}", outcome::account(&state.outcomes, self.started.elapsed()));
        let failed = state.outcomes.iter().any(|outcome| matches!(outcome.verdict, Verdict::Failed(_)));
        Ok(!failed && !self.is_interrupted())
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

/// From the error or the panic on, or the end where there is neither.
fn excerpt(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let trouble = lines.iter().position(|line| line.starts_with("Error: ") || line.contains(" panicked at "));
    let from = trouble.unwrap_or_else(|| lines.len().saturating_sub(EXCERPT));
    lines.iter().skip(from).take(EXCERPT).map(|line| format!("    | {line}\n")).collect()
}
