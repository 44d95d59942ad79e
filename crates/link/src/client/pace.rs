//! When the next heartbeat is due. Pure: the random number, in [0, 1), is passed in.

use std::time::Duration;

/// An operator's wish is bounded, so that a wrong one neither floods it nor silences us.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(300);

/// The second heartbeat of a connection falls anywhere in the interval: a fleet that connected together drifts apart at
/// once. The others vary by a tenth.
pub fn next(wish: Duration, first: bool, random: f64) -> Duration {
    let interval = wish.clamp(SHORTEST, LONGEST);
    interval.mul_f64(if first { 0.1 + 0.9 * random } else { 0.9 + 0.2 * random })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn heartbeats_vary_by_a_tenth_around_the_wish() {
        assert_eq!(next(MINUTE, false, 0.0), Duration::from_secs(54));
        assert_eq!(next(MINUTE, false, 0.5), MINUTE);
    }

    #[test]
    fn the_second_heartbeat_falls_anywhere_in_the_interval() {
        assert_eq!(next(MINUTE, true, 0.0), Duration::from_secs(6));
        assert!(next(MINUTE, true, 0.999) <= MINUTE);
    }

    #[test]
    fn a_wrong_wish_is_bounded() {
        assert!(next(Duration::ZERO, false, 0.0) > Duration::from_millis(100));
        assert!(next(Duration::MAX, false, 0.999) < Duration::from_secs(400));
    }
}
