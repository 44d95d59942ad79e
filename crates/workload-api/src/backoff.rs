//! When to ask the Workload API again. Pure: the random number, in [0, 1), is passed in.

use std::time::Duration;

const STEP: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// At once after a stream that lasted, then doubling; half of each wait is chance, because all pods of a node ask one agent.
pub fn delay(failures: u32, random: f64) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let wait = STEP.saturating_mul(2u32.saturating_pow(doublings)).min(LONGEST);
    wait.mul_f64((0.5 + random / 2.0).clamp(0.5, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_stream_is_opened_again_at_once_and_then_ever_later() {
        let waits: Vec<_> = (0..5).map(|failures| delay(failures, 1.0).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800]);
    }

    #[test]
    fn no_wait_is_longer_than_ten_seconds_or_shorter_than_half_of_its_own() {
        assert_eq!(delay(u32::MAX, 0.999_999).as_secs(), 9);
        assert_eq!(delay(u32::MAX, 0.0), LONGEST / 2);
        assert!(delay(1, 0.0) >= STEP / 2);
    }
}
