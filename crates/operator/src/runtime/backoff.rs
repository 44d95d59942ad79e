//! How long to wait before the API server is asked again after a failure. Pure but for clock and jitter; each cluster has its own count of
//! failures, and one of its own for its status.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(500);
/// Something refused is seldom allowed a second later, but should be picked up within a minute or so once it is.
const LONGEST: Duration = Duration::from_secs(60);

/// Doubles with each failure in a row; `jitter` from 0 to 1 takes away up to a quarter.
pub fn delay(failures: u32, jitter: f64) -> Duration {
    let doubled = FIRST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(16)));
    doubled.min(LONGEST).mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}

/// Failed attempts at one thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempts {
    /// In a row.
    failures: u32,
    /// Nothing is tried before this.
    retry_at: Option<Instant>,
}

impl Attempts {
    /// How long the next one waits.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let delay = delay(self.failures, fastrand::f64());
        self.wait(delay);
        delay
    }

    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    pub fn wait(&mut self, delay: Duration) {
        self.retry_at = Some(Instant::now() + delay);
    }

    /// How long until the next one; none while nothing is waited out.
    pub fn left(&self) -> Option<Duration> {
        self.retry_at?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_a_minute() {
        let seconds: Vec<f64> = [1, 2, 3, 8, 1000].map(|failures| delay(failures, 0.0).as_secs_f64()).to_vec();
        assert_eq!(seconds, [0.5, 1.0, 2.0, 60.0, 60.0]);
    }
}
