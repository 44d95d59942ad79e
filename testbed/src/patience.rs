//! How long to wait. A deadline only tells what is stuck from what is slow, so a slow machine stretches all of them at once.

use std::sync::OnceLock;
use std::time::Duration;

pub const VARIABLE: &str = "TESTBED_PATIENCE";

static FACTOR: OnceLock<u32> = OnceLock::new();

/// Set once, at the start of the program.
pub fn set(factor: u32) {
    let _ = FACTOR.set(factor);
}

pub fn factor() -> u32 {
    FACTOR.get().copied().unwrap_or(1)
}

/// What takes this long at most on a usual machine.
pub fn seconds(usual: u64) -> Duration {
    Duration::from_secs(usual) * factor()
}
