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

    pub fn worst(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }

    /// Each of these without the other of the same repetition.
    pub fn above(&self, floor: &Self) -> Self {
        Self(self.0.iter().zip(&floor.0).map(|(value, floor)| value.saturating_sub(*floor)).collect())
    }
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
    fn what_is_above_the_floor_is_taken_repetition_by_repetition() {
        let above = series(&[8, 20]).above(&series(&[3, 30]));
        assert_eq!((above.worst(), above.median()), (Duration::from_millis(5), Duration::from_millis(5)));
    }
}
