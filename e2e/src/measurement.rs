//! Times worth keeping from a run: appended to a file that people read afterwards, since the output of passing tests is captured.

use crate::test::Test;
use anyhow::{Context, Result};
use std::{fs::OpenOptions, io::Write, time::Duration};

/// Notes the time in the test's timeline and in `target/e2e-measurements.txt`.
pub fn record(test: &Test, what: &str, took: Duration) -> Result<()> {
    let line = format!("{}: {what}: {:.2} s", test.name, took.as_secs_f64());
    test.note(&line);
    let executable = std::env::current_exe().context("find the test executable")?;
    let target = executable.ancestors().nth(3).context("the test executable is in no target directory")?;
    let path = target.join("e2e-measurements.txt");
    let mut file =
        OpenOptions::new().create(true).append(true).open(&path).with_context(|| format!("open {}", path.display()))?;
    file.write_all(format!("{line}\n").as_bytes()).with_context(|| format!("write {}", path.display()))
}
