//! Saying loudly that a test did not run. Written past libtest's capture, and to a file that outlives the terminal's scrollback.

use anyhow::{Context, Result};
use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

/// Raised by a test that finds out on the way that this cluster cannot carry it.
#[derive(Debug, thiserror::Error)]
#[error("skipped: {0}")]
pub struct Skipped(pub String);

pub fn report(test: &str, reason: &str) -> Result<()> {
    let line = format!("SKIPPED {test}: {reason}");
    say(&line)?;
    append(&report_path()?, &format!("{line}\n"))
}

/// `eprintln!` would be captured with the output of a passing test; the handle itself is not.
pub fn say(line: &str) -> Result<()> {
    std::io::stderr().lock().write_all(format!("{line}\n").as_bytes()).context("write to stderr")
}

fn append(path: &Path, line: &str) -> Result<()> {
    let mut file =
        OpenOptions::new().create(true).append(true).open(path).with_context(|| format!("open {}", path.display()))?;
    file.write_all(line.as_bytes()).with_context(|| format!("write {}", path.display()))
}

/// `E2E_SKIP_REPORT`, else `e2e-skipped.txt` in the target directory.
fn report_path() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("E2E_SKIP_REPORT") {
        return Ok(path.into());
    }
    let executable = std::env::current_exe().context("find the test executable")?;
    let target = executable.ancestors().nth(3).context("the test executable is in no target directory")?;
    Ok(target.join("e2e-skipped.txt"))
}
