//! How wide sidecars spread their first attempt after the line broke, given how many there are. Pure.

use std::time::Duration;

/// Handshakes a second that leave an operator on one core time for its other work.
const HANDSHAKES_PER_SECOND: f64 = 1_250.0;
const NARROWEST: Duration = Duration::from_millis(200);
pub const WIDEST: Duration = Duration::from_secs(8);

pub fn spread(sidecars: usize) -> Duration {
    let seconds = sidecars as f64 / HANDSHAKES_PER_SECOND;
    Duration::try_from_secs_f64(seconds).unwrap_or(WIDEST).clamp(NARROWEST, WIDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_sidecars_come_back_at_once_and_many_over_seconds() {
        assert_eq!(spread(6), NARROWEST);
        assert_eq!(spread(2_500), Duration::from_secs(2));
        assert_eq!(spread(10_000), WIDEST);
        assert_eq!(spread(1_000_000), WIDEST);
    }
}
