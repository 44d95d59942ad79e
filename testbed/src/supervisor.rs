//! Runs the parts as children, each with its log, and starts again what ends by itself, as a real machine's init would.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::command::tail;
use crate::patience;

/// How to run a part.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: String,
    /// Path of the network namespace to run in; the host's when none.
    pub network_namespace: Option<String>,
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub log: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartStatus {
    pub name: String,
    pub running: bool,
    pub restarts: u32,
}

struct Running {
    pid: Option<Pid>,
    stopping: bool,
    restarts: u32,
    log: PathBuf,
}

#[derive(Clone, Default)]
pub struct Supervisor {
    parts: Arc<Mutex<BTreeMap<String, Running>>>,
}

impl Supervisor {
    fn parts(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn start(&self, part: Part) -> Result<()> {
        if self.parts().get(&part.name).is_some_and(|running| running.pid.is_some()) {
            return Ok(());
        }
        let child = spawn(&part)?;
        let running =
            Running { pid: Some(Pid::from_child(&child)), stopping: false, restarts: 0, log: part.log.clone() };
        self.parts().insert(part.name.clone(), running);
        let own = self.clone();
        thread::spawn(move || own.watch(part, child));
        Ok(())
    }

    fn watch(&self, part: Part, mut child: Child) {
        loop {
            let _ = child.wait();
            if self.ended(&part.name) {
                return;
            }
            thread::sleep(Duration::from_secs(1));
            let Some(next) = self.again(&part) else { return };
            child = next;
        }
    }

    /// Notes the end of a part; true when it was asked to end.
    fn ended(&self, name: &str) -> bool {
        let mut parts = self.parts();
        let Some(running) = parts.get_mut(name) else { return true };
        running.pid = None;
        running.stopping
    }

    fn again(&self, part: &Part) -> Option<Child> {
        let mut parts = self.parts();
        let running = parts.get_mut(&part.name).filter(|running| !running.stopping)?;
        let child = spawn(part).ok()?;
        running.pid = Some(Pid::from_child(&child));
        running.restarts += 1;
        Some(child)
    }

    /// Kills a part at once and waits for its end.
    pub fn kill(&self, name: &str) -> Result<()> {
        if let Some(running) = self.parts().get_mut(name) {
            running.stopping = true;
            if let Some(pid) = running.pid {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let deadline = Instant::now() + patience::seconds(10);
        while self.parts().get(name).is_some_and(|running| running.pid.is_some()) {
            if Instant::now() > deadline {
                bail!("{name} does not die");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    pub fn status(&self) -> Vec<PartStatus> {
        let shown = |(name, running): (&String, &Running)| PartStatus {
            name: name.clone(),
            running: running.pid.is_some(),
            restarts: running.restarts,
        };
        self.parts().iter().map(shown).collect()
    }

    /// Waits until `check` succeeds. A part that ended meanwhile is the reason at once: it will not get better.
    pub fn wait_for(&self, part: &str, seconds: u64, mut check: impl FnMut() -> Result<()>) -> Result<()> {
        let limit = patience::seconds(seconds);
        let deadline = Instant::now() + limit;
        loop {
            let Err(reason) = check() else { return Ok(()) };
            let (restarts, log) = self.parts().get(part).map_or((0, PathBuf::new()), |p| (p.restarts, p.log.clone()));
            if restarts > 2 || Instant::now() > deadline {
                let story = if restarts > 2 {
                    "keeps ending".to_owned()
                } else {
                    format!("is not ready after {} s", limit.as_secs())
                };
                bail!("{part} {story}: {reason:#}; the end of {}:\n{}", log.display(), tail(&log, 10));
            }
            // Looking costs a slow machine as much more as everything else.
            thread::sleep(Duration::from_millis(100) * patience::factor());
        }
    }
}

fn spawn(part: &Part) -> Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(&part.log);
    let log = log.with_context(|| format!("cannot write {}", part.log.display()))?;
    let enter =
        part.network_namespace.iter().flat_map(|path| ["nsenter".to_owned(), format!("--net={path}"), "--".to_owned()]);
    let mut words = enter.chain(part.command.iter().cloned());
    let program = words.next().with_context(|| format!("{} has no command", part.name))?;
    let mut command = Command::new(program);
    command.args(words).envs(part.environment.iter().cloned()).env_remove(crate::layout::MARKER);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot start {}", part.name))
}
