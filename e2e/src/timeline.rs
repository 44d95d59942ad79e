//! What the harness did in a test and when, for the failure collection. In memory only.

use std::{sync::Mutex, time::Instant};

pub struct Timeline {
    started: Instant,
    entries: Mutex<Vec<String>>,
}

impl Timeline {
    pub fn start() -> Self {
        Self { started: Instant::now(), entries: Mutex::new(Vec::new()) }
    }

    pub fn note(&self, text: impl AsRef<str>) {
        let line = format!("{:8.3} s  {}", self.started.elapsed().as_secs_f64(), text.as_ref());
        // A panicking test poisons the lock, and that is exactly when the timeline is wanted.
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
    }

    /// The latest entry.
    pub fn last(&self) -> String {
        let entries = self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        entries.last().map_or_else(|| "nothing".to_owned(), |line| line.trim_start().to_owned())
    }

    pub fn text(&self) -> String {
        let entries = self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        entries.iter().map(|line| format!("{line}\n")).collect()
    }
}
