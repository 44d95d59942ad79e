//! Percentiles. Pure.

use std::time::Duration;

/// The value that `percent` of all are not above.
pub fn percentile(values: &mut [u32], percent: usize) -> Duration {
    values.sort_unstable();
    let index = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    Duration::from_micros(values.get(index).copied().unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred_are_their_own_numbers() {
        let mut values: Vec<u32> = (0..100).rev().collect();
        assert_eq!(percentile(&mut values, 50), Duration::from_micros(50));
        assert_eq!(percentile(&mut values, 99), Duration::from_micros(99));
        assert_eq!(percentile(&mut [], 99), Duration::ZERO);
    }
}
