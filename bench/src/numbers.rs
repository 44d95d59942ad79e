//! A thing measured several times. Pure.

use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Series(Vec<Duration>);

impl Series {
    pub fn add(&mut self, value: Duration) {
        self.0.push(value);
    }

    /// Of an even number the greater of the two in the middle.
    pub fn median(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    /// So many of a hundred values are no greater.
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(rank).copied().unwrap_or_default()
    }

    pub fn worst(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }

    /// Each of these without the other of the same repetition.
    pub fn above(&self, floor: &Self) -> Self {
        Self(self.0.iter().zip(&floor.0).map(|(value, floor)| value.saturating_sub(*floor)).collect())
    }

    /// How many times the other of the same repetition each of these is.
    pub fn times(&self, floor: &Self) -> Factors {
        let times = |(value, floor): (&Duration, &Duration)| value.as_secs_f64() / floor.as_secs_f64();
        let mut factors: Vec<f64> = self.0.iter().zip(&floor.0).map(times).collect();
        factors.sort_unstable_by(f64::total_cmp);
        let at = |rank: usize| factors.get(rank).copied().unwrap_or_default();
        Factors { median: at(factors.len() / 2), worst: at(factors.len().saturating_sub(1)) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    pub median: f64,
    pub worst: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[u64]) -> Series {
        Series(values.iter().copied().map(Duration::from_millis).collect())
    }

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        assert_eq!(series(&[9, 1, 5]).median(), Duration::from_millis(5));
        assert_eq!(series(&[9, 1, 5]).worst(), Duration::from_millis(9));
        assert_eq!(Series::default().median(), Duration::ZERO);
    }

    #[test]
    fn of_a_hundred_values_one_is_above_the_ninety_ninth_percentile() {
        let values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(series(&values).percentile(99), Duration::from_millis(99));
        assert_eq!(series(&[7]).percentile(99), Duration::from_millis(7));
        assert_eq!(Series::default().percentile(99), Duration::ZERO);
    }

    #[test]
    fn what_is_above_the_floor_is_taken_repetition_by_repetition() {
        let above = series(&[8, 20]).above(&series(&[3, 30]));
        assert_eq!((above.worst(), above.median()), (Duration::from_millis(5), Duration::from_millis(5)));
    }

    #[test]
    fn each_is_so_many_times_the_floor_of_its_own_repetition() {
        let times = series(&[10, 60, 15]).times(&series(&[10, 20, 10]));
        assert_eq!(times, Factors { median: 1.5, worst: 3.0 });
    }
}
