//! What a test needs, told to whoever runs them all: with `E2E_DESCRIBE=1` every test prints it and ends at once.

use anyhow::{Context, Result};
use std::io::Write;

/// A testbed together with others; the number is how many places it takes.
pub const SHARED: &str = "shared 1";
pub const SHARED_HEAVY: &str = "shared 2";
/// A testbed that nobody else uses meanwhile.
pub const ALONE: &str = "alone";
/// It makes testbeds of its own.
pub const MACHINE: &str = "machine";

pub fn is_asked() -> bool {
    std::env::var_os("E2E_DESCRIBE").is_some_and(|value| value == "1")
}

pub fn tell(needs: &str) -> Result<()> {
    writeln!(std::io::stdout(), "needs: {needs}").context("tell what the test needs")
}
