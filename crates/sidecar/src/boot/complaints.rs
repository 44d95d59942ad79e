//! What the gate complains of in the log: what fails is tried again many times a second, and is not told that often.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

const AGAIN: Duration = Duration::from_secs(10);

/// What was last complained of, and when.
#[derive(Debug, Default)]
pub struct Complaints(Mutex<Option<(String, Instant)>>);

impl Complaints {
    pub(super) fn tell(&self, error: &dyn std::error::Error) {
        let text = link::sentence::of(error);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(told, at)| *told != text || at.elapsed() > AGAIN) {
            tracing::error!(error = text, "the gate before Valkey does not work");
            *last = Some((text, Instant::now()));
        }
    }
}
