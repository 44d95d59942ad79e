//! How the agent waits for an API server that is away: patient, but never for long, because it is on the same
//! machine and tests restart it on purpose. Called by both controllers and by the policy watches.

use std::time::Duration;

use kube::runtime::utils::Backoff;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Doubling pauses with a low ceiling.
pub struct LocalBackoff {
    next: Duration,
}

impl Default for LocalBackoff {
    fn default() -> Self {
        Self { next: FIRST_PAUSE }
    }
}

impl Iterator for LocalBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST_PAUSE);
        Some(pause)
    }
}

impl Backoff for LocalBackoff {
    fn reset(&mut self) {
        self.next = FIRST_PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_ceiling_and_start_over_after_a_success() {
        let mut backoff = LocalBackoff::default();
        let pauses: Vec<u128> = backoff.by_ref().take(4).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.next(), Some(FIRST_PAUSE));
    }
}
