//! Latencies in buckets about three percent wide, from a microsecond up. Pure.

use crate::gap::milliseconds;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Buckets per power of two.
const STEPS: u64 = 32;

#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: BTreeMap<u64, u64>,
    count: u64,
    longest: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub longest_ms: f64,
}

impl Histogram {
    pub fn record(&mut self, duration: Duration) {
        *self.buckets.entry(bucket(duration)).or_default() += 1;
        self.count += 1;
        self.longest = self.longest.max(duration);
    }

    pub fn percentiles(&self) -> Percentiles {
        let at = |per_mille| milliseconds(self.quantile(per_mille));
        let longest_ms = milliseconds(self.longest);
        Percentiles { p50_ms: at(500), p90_ms: at(900), p99_ms: at(990), p999_ms: at(999), longest_ms }
    }

    /// The upper edge of the bucket in which the quantile lies.
    fn quantile(&self, per_mille: u64) -> Duration {
        let wanted = (self.count * per_mille).div_ceil(1000);
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        found.map_or(Duration::ZERO, |(bucket, _)| upper_edge(*bucket).min(self.longest))
    }
}

/// Linear below `STEPS` microseconds, then `STEPS` buckets per doubling.
fn bucket(duration: Duration) -> u64 {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    if micros < STEPS {
        return micros;
    }
    let doublings = u64::from((micros / STEPS).ilog2());
    doublings * STEPS + (micros >> doublings)
}

fn upper_edge(bucket: u64) -> Duration {
    if bucket < STEPS {
        return Duration::from_micros(bucket);
    }
    let doublings = bucket / STEPS - 1;
    Duration::from_micros(((bucket - doublings * STEPS + 1) << doublings) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_a_known_series() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|number| histogram.record(Duration::from_millis(number)));
        let Percentiles { p50_ms, p90_ms, p99_ms, p999_ms, longest_ms } = histogram.percentiles();
        for (got, exact) in [(p50_ms, 500.0), (p90_ms, 900.0), (p99_ms, 990.0), (p999_ms, 999.0)] {
            assert!(got >= exact && got <= exact * 1.035, "{got} for {exact}");
        }
        assert_eq!(longest_ms, 1000.0);
    }

    #[test]
    fn nothing_recorded_is_zero() {
        assert_eq!(Histogram::default().percentiles(), Percentiles::default());
    }

    proptest! {
        #[test]
        fn the_edge_of_a_bucket_is_never_below_and_at_most_three_percent_above(micros in 0_u64..10_000_000_000) {
            let edge = upper_edge(bucket(Duration::from_micros(micros))).as_micros() as u64;
            prop_assert!(edge >= micros && edge <= micros + micros / STEPS);
        }
    }
}
