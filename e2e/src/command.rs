//! Running programs (the testbed driver, kubectl, helm) and keeping all they said. IO; called by `testbed` and `test`.

use anyhow::{Context, Result, bail};
use std::process::{Output, Stdio};

#[derive(Debug, Clone)]
pub struct CommandOutput {
    pub line: String,
    pub stdout: String,
    pub stderr: String,
    /// -1 when a signal ended the program.
    pub code: i32,
}

impl CommandOutput {
    /// The standard output, or an error that carries what the program complained about.
    pub fn success(self) -> Result<String> {
        if self.code == 0 {
            return Ok(self.stdout);
        }
        bail!("`{}` ended with {}: {}{}", self.line, self.code, self.stderr.trim(), self.stdout.trim())
    }

    fn from_process(line: String, output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Self { line, stdout: text(&output.stdout), stderr: text(&output.stderr), code }
    }
}

/// Runs to the end; the program is killed when the caller stops waiting.
pub async fn run(mut command: tokio::process::Command) -> Result<CommandOutput> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let line = describe(command.as_std());
    let output = command.output().await.with_context(|| format!("run `{line}`"))?;
    Ok(CommandOutput::from_process(line, output))
}

pub fn run_blocking(mut command: std::process::Command) -> Result<CommandOutput> {
    command.stdin(Stdio::null());
    let line = describe(&command);
    let output = command.output().with_context(|| format!("run `{line}`"))?;
    Ok(CommandOutput::from_process(line, output))
}

fn describe(command: &std::process::Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
