//! Runs the system's own tools (mkfs.xfs, mount, losetup, iptables …) and turns failure into an error that says
//! which tool failed and what it printed. IO; called by `storage::disk` and `policy::loader`.

use std::process::Stdio;

use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

#[derive(Debug, Error)]
pub enum CommandError {
    #[error("cannot run {program}; is its package installed?")]
    Start { program: String, source: std::io::Error },
    #[error("lost contact with {program}")]
    Talk { program: String, source: std::io::Error },
    #[error("`{line}` failed: {message}")]
    Failed { line: String, message: String },
}

/// Runs `program` to its end and returns what it printed.
pub async fn run(program: &str, arguments: &[&str]) -> Result<String, CommandError> {
    run_with_input(program, arguments, "").await
}

/// The same, with `input` on its standard input.
pub async fn run_with_input(program: &str, arguments: &[&str], input: &str) -> Result<String, CommandError> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| CommandError::Start { program: program.to_owned(), source })?;
    let stdin = child.stdin.take();
    // Both at once: a tool that prints a lot before it has read everything would otherwise block us both.
    let (_, output) = tokio::join!(feed(stdin, input), child.wait_with_output());
    let output = output.map_err(|source| CommandError::Talk { program: program.to_owned(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let message = if message.is_empty() { output.status.to_string() } else { message };
    Err(CommandError::Failed { line: format!("{program} {}", arguments.join(" ")), message })
}

/// A tool that ends before it has read its input says why on its standard error, so a broken pipe is no news.
async fn feed(stdin: Option<tokio::process::ChildStdin>, input: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tool_gets_its_input_and_returns_its_output() {
        assert_eq!(run_with_input("cat", &[], "hello").await.unwrap(), "hello");
    }

    #[tokio::test]
    async fn failure_carries_the_command_line_and_the_tools_own_words() {
        let error = run("sh", &["-c", "echo no such thing >&2; exit 3"]).await.unwrap_err().to_string();
        assert!(error.contains("sh -c") && error.contains("no such thing"), "{error}");
    }

    #[tokio::test]
    async fn a_missing_tool_is_named() {
        let error = run("no-such-tool", &[]).await.unwrap_err().to_string();
        assert!(error.contains("cannot run no-such-tool"), "{error}");
    }
}
