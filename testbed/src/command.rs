//! Running other programs: to the end with their output checked, or to the end with the output in a log file.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program to its end; what it printed is the answer, or the reason of the failure.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    finish(&mut command)
}

pub fn finish(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", shown(command), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `ip` with words given as one string, as one would type it.
pub fn ip(words: &str) -> Result<String> {
    run("ip", &words.split_whitespace().collect::<Vec<_>>())
}

/// Runs to the end with all output in `log`.
pub fn finish_into_log(command: &mut Command, log: &Path) -> Result<()> {
    let file = OpenOptions::new().create(true).write(true).truncate(true).open(log);
    let file = file.with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status}); the end of {}:\n{}", shown(command), log.display(), tail(log, 12));
    }
    Ok(())
}

/// The last lines of a log, indented, for error messages.
pub fn tail(log: &Path, lines: usize) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all.iter().skip(from).map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
