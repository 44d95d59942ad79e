//! When to dial again. Pure: the random number, in [0, 1), is passed in.
//!
//! The first attempt falls anywhere in the spread that the operator asked for, which grows with its fleet. Later ones
//! wait longer by the logarithm of their number, and never so long that a returning operator has to wait for them.

use std::time::Duration;

/// Before the operator has said how wide to spread.
pub const FIRST_SPREAD: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_secs(2);
/// With the time of a handshake, all are back within 15 s.
const LONGEST: Duration = Duration::from_secs(12);

pub fn delay(failures: u32, spread: Duration, random: f64) -> Duration {
    let longest = (spread + STEP.mul_f64(f64::from(failures).ln_1p())).min(LONGEST);
    // After a failure the wait has a lower bound too, or the lucky would knock in quick succession.
    let fraction = if failures == 0 { random } else { 0.5 + random / 2.0 };
    longest.mul_f64(fraction.clamp(0.0, 1.0))
}

/// Between two leaders: there will be a leader in a moment, so this wait does not grow with the attempts. It grows with the fleet, which
/// may have to ask for as long as there is none: all together no more often than the replicas can answer.
pub fn between_leaders(spread: Duration, random: f64) -> Duration {
    let longest = (spread + spread.saturating_sub(FIRST_SPREAD) / 2).clamp(FIRST_SPREAD, LONGEST);
    longest.mul_f64((0.5 + random / 2.0).clamp(0.0, 1.0))
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
