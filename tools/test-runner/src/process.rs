//! One program from start to end, with all it says in a log: in a process group of its own, so that nothing it started outlives a time
//! limit or Ctrl-C. IO.

use crate::session::Session;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    fs::File,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// After a polite signal: end-to-end tests mend nodes and remove what they made.
const TO_CLEAN_UP: Duration = Duration::from_secs(90);

/// Ok when the program ended well; else why not.
pub type Ended = Result<(), String>;

/// Runs it with both outputs in the log.
pub async fn run(session: &Session, mut command: Command, log: &Path, limit: Duration) -> Ended {
    into_log(&mut command, log)?;
    end(session, command, limit).await
}

/// The same for what tidies up: Ctrl-C does not end it.
pub async fn run_undisturbed(mut command: Command, log: &Path) -> Ended {
    into_log(&mut command, log)?;
    ended(command.stdin(Stdio::null()).process_group(0).status().await)
}

fn into_log(command: &mut Command, log: &Path) -> Ended {
    let (out, error) = outputs(log).map_err(|error| format!("{error:#}"))?;
    command.stdout(out).stderr(error);
    Ok(())
}

fn outputs(log: &Path) -> Result<(File, File)> {
    let file =
        File::options().create(true).append(true).open(log).with_context(|| format!("open {}", log.display()))?;
    Ok((file.try_clone().context("share the log")?, file))
}

/// Runs it; where its outputs go is the caller's business.
pub async fn end(session: &Session, mut command: Command, limit: Duration) -> Ended {
    command.stdin(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("it did not start: {error}"))?;
    let mut interrupted = session.interrupted.subscribe();
    let reason = tokio::select! {
        status = child.wait() => return ended(status),
        () = tokio::time::sleep(limit) => format!("killed after {} s; {}", limit.as_secs(), at_work(&child).await),
        _ = interrupted.wait_for(|interrupted| *interrupted) => "interrupted".to_owned(),
    };
    stop(&mut child).await;
    Err(reason)
}

/// What the program and those it started were doing: what hung is nowhere else to be seen.
async fn at_work(child: &Child) -> String {
    let listed = Command::new("ps").args(["-eo", "pgid=,pid=,etimes=,args="]).stdin(Stdio::null()).output().await;
    let text = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default();
    format!("at work then, with pid and seconds: {}", members(&text, child.id().unwrap_or_default()).join(" | "))
}

/// Lines of `ps` that belong to a process group, without it.
fn members(text: &str, group: u32) -> Vec<String> {
    let split =
        |line: &str| line.trim_start().split_once(' ').map(|(id, rest)| (id.to_owned(), rest.trim().to_owned()));
    let ours = text.lines().filter_map(split).filter(|(id, _)| *id == group.to_string());
    ours.map(|(_, rest)| rest.chars().take(160).collect()).collect()
}

async fn stop(child: &mut Child) {
    let Some(group) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return };
    for signal in [Signal::TERM, Signal::KILL] {
        let _ = kill_process_group(group, signal);
        if timeout(TO_CLEAN_UP, child.wait()).await.is_ok() {
            break;
        }
    }
    // What it started and left behind.
    let _ = kill_process_group(group, Signal::KILL);
}

fn ended(status: std::io::Result<ExitStatus>) -> Ended {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("it cannot be waited for: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_group_of_a_hung_program_is_listed() {
        let listed = "    7     7  3600 bash images/test\n    9     9     1 ps -eo\n    7    81  3590 sleep 60\n   77    77 1 other\n";
        assert_eq!(members(listed, 7), ["7  3600 bash images/test", "81  3590 sleep 60"]);
    }
}
