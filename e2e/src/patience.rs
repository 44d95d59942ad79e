//! Slow machines: every limit of a wait is stretched by `TESTBED_PATIENCE`, as the testbed's own are. What a test claims to be fast
//! it measures itself.

use std::{sync::LazyLock, time::Duration};

/// The testbed's driver refuses a value that is no number.
static FACTOR: LazyLock<u32> =
    LazyLock::new(|| std::env::var("TESTBED_PATIENCE").ok().and_then(|value| value.parse().ok()).unwrap_or(1));

/// `usual` is the limit on a machine of usual speed.
pub fn stretched(usual: Duration) -> Duration {
    usual * *FACTOR
}
