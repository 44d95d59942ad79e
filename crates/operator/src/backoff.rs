//! How long a cluster whose look failed is left alone. Pure but for the jitter; each cluster has its own count of failures.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
/// Something refused is seldom allowed a second later, but should be picked up within a minute or so once it is.
const LONGEST: Duration = Duration::from_secs(60);

/// With every look what was refused is tried again, too.
const SOONEST: Duration = Duration::from_millis(250);

/// Doubles with each failure in a row; `jitter` from 0 to 1 takes away up to a quarter.
pub fn delay(failures: u32, jitter: f64) -> Duration {
    let doubled = FIRST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(16)));
    doubled.min(LONGEST).mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}

/// A step at the API server that is refused again and again does not hold up what is under way with the nodes.
pub fn beside_nodes(delay: Duration, nodes_due: Option<Duration>) -> Duration {
    nodes_due.map_or(delay, |due| delay.min(due.max(SOONEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_a_minute() {
        let seconds: Vec<f64> = [1, 2, 3, 8, 1000].map(|failures| delay(failures, 0.0).as_secs_f64()).to_vec();
        assert_eq!(seconds, [0.5, 1.0, 2.0, 60.0, 60.0]);
    }

    #[test]
    fn what_is_under_way_with_the_nodes_is_looked_at_in_time() {
        let minute = Duration::from_secs(60);
        let due = |milliseconds| beside_nodes(minute, Some(Duration::from_millis(milliseconds)));
        assert_eq!([due(2_000), due(50)], [Duration::from_secs(2), SOONEST]);
        assert_eq!([due(90_000), beside_nodes(minute, None)], [minute; 2]);
    }

    #[test]
    fn jitter_only_shortens() {
        assert!((0..=10).all(|step| delay(5, f64::from(step) / 10.0) <= delay(5, 0.0)));
        assert!(delay(5, 1.0) >= delay(5, 0.0).mul_f64(0.74));
    }
}
