//! How many random histories there are, and which.

use proptest::test_runner::{Config, RngSeed};

/// The same cases every time, unless more of them are asked for: then others.
pub fn histories() -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let rng_seed = if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(20_250_902) };
    let cases = asked.and_then(|text| text.parse().ok()).unwrap_or(48);
    Config { cases, rng_seed, max_shrink_iters: 200, failure_persistence: None, ..Config::default() }
}
