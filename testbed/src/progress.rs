//! One line per step with the time since the start, on standard error.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Set by a script that calls several programs: the second of the epoch from which all of them count.
const SINCE: &str = "PROGRESS_SINCE";

#[derive(Clone, Copy)]
pub struct Progress {
    start: Instant,
    /// How long the script that called us had been at work by then.
    before: Duration,
}

impl Progress {
    pub fn start() -> Self {
        let since = std::env::var(SINCE).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), before: since.map_or(Duration::ZERO, |since| now.saturating_sub(since)) }
    }

    pub fn say(&self, what: &str) {
        eprintln!("[{}] {what}", clock(self.before + self.start.elapsed()));
    }
}

/// Minutes and seconds, as in 04:31.
fn clock(elapsed: Duration) -> String {
    format!("{:02}:{:02}", elapsed.as_secs() / 60, elapsed.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_minutes_past_the_hour() {
        assert_eq!(clock(Duration::from_secs(271)), "04:31");
        assert_eq!(clock(Duration::from_secs(6000)), "100:00");
    }
}
