//! One line per step with the time since the start, on standard error.

use std::time::Instant;

#[derive(Clone, Copy)]
pub struct Progress {
    start: Instant,
}

impl Progress {
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub fn say(&self, what: &str) {
        eprintln!("[{:6.1} s] {what}", self.start.elapsed().as_secs_f64());
    }
}
