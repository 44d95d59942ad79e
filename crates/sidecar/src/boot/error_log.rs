//! Errors of the boot guard in the log: what fails is tried again many times a second, and is not logged that often.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

const AGAIN: Duration = Duration::from_secs(10);

/// What was logged last, and when.
#[derive(Debug, Default)]
pub struct ErrorLog(Mutex<Option<(String, Instant)>>);

impl ErrorLog {
    pub(super) fn log(&self, error: &dyn std::error::Error) {
        let text = link::sentence::of(error);
        let mut last = self.0.lock();
        if last.as_ref().is_none_or(|(logged, at)| *logged != text || at.elapsed() > AGAIN) {
            tracing::error!(error = text, "the gate before Valkey does not work");
            *last = Some((text, Instant::now()));
        }
    }
}
