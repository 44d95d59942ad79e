//! Test scripts, which say a line for each check: `ok      sentence` and `FAILED  sentence` as those that source `scripts/checks.sh` do,
//! or `test name ... ok` as cargo does. IO; reading a line is pure.

use crate::{
    outcome::{Outcome, Verdict},
    process,
    session::Session,
};
use anyhow::{Context, Result};
use std::{
    fs::File,
    io::{BufRead, BufReader, PipeReader, Write},
    path::Path,
    time::{Duration, Instant},
};
use tokio::{process::Command, sync::mpsc};

const LIMIT: Duration = Duration::from_secs(3600);

/// Runs the script; each of its checks is an outcome, and so is the script itself when it fails without naming one.
pub async fn run(session: &Session, part: &'static str, name: &str, mut command: Command) {
    session.say(name);
    let (log, began) = (session.log_of(name), Instant::now());
    command.current_dir(&session.repository);
    let (ended, named) = match follow(&mut command, &log) {
        Ok(lines) => tokio::join!(process::end(session, command, LIMIT), record(session, part, name, &log, lines)),
        Err(error) => (Err(format!("{error:#}")), 0),
    };
    let verdict = match ended {
        Ok(()) if named == 0 => Verdict::Passed,
        Err(reason) if named == 0 || reason == "interrupted" => Verdict::Failed(reason),
        _ => return,
    };
    let (name, took) = (name.to_owned(), began.elapsed());
    session.record(part, Outcome { name, verdict, took, log: Some(log), evidence: None });
}

type Lines = mpsc::UnboundedReceiver<(Instant, String)>;

/// Both outputs in one pipe, copied to the log line by line.
fn follow(command: &mut Command, log: &Path) -> Result<Lines> {
    let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    let (reader, writer) = std::io::pipe().context("make a pipe")?;
    command.stdout(writer.try_clone().context("share the pipe")?).stderr(writer);
    let (sender, lines) = mpsc::unbounded_channel();
    tokio::task::spawn_blocking(move || copy(reader, file, &sender));
    Ok(lines)
}

fn copy(reader: PipeReader, mut log: File, sender: &mpsc::UnboundedSender<(Instant, String)>) {
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        let _ = writeln!(log, "{line}");
        let _ = sender.send((Instant::now(), line));
    }
}

/// Gives how many failed checks there were, or one when there were only others.
async fn record(session: &Session, part: &'static str, script: &str, log: &Path, mut lines: Lines) -> usize {
    let (mut before, mut checks, mut failed) = (Instant::now(), 0, 0);
    while let Some((at, line)) = lines.recv().await {
        let Some((sentence, verdict)) = check(&line) else { continue };
        checks += 1;
        failed += usize::from(matches!(verdict, Verdict::Failed(_)));
        let (name, took) = (format!("{script}: {sentence}"), at.duration_since(before));
        session.record(part, Outcome { name, verdict, took, log: Some(log.to_owned()), evidence: None });
        before = at;
    }
    if checks == 0 { 0 } else { failed.max(1) }
}

fn check(line: &str) -> Option<(String, Verdict)> {
    if let Some(sentence) = line.strip_prefix("ok      ") {
        return Some((sentence.to_owned(), Verdict::Passed));
    }
    if let Some(sentence) = line.strip_prefix("FAILED  ") {
        return Some((sentence.to_owned(), Verdict::Failed("the log says why".to_owned())));
    }
    if let Some((what, reason)) = line.strip_prefix("skipped ").and_then(|rest| rest.split_once(": ")) {
        return Some((what.to_owned(), Verdict::Skipped(reason.to_owned())));
    }
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let verdict = match verdict {
        "ok" => Verdict::Passed,
        "FAILED" => Verdict::Failed("the log says why".to_owned()),
        other => Verdict::Skipped(other.to_owned()),
    };
    Some((name.to_owned(), verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_our_scripts_and_of_cargo_are_checks() {
        let failed = || Verdict::Failed("the log says why".into());
        assert_eq!(check("ok      the chart is clean"), Some(("the chart is clean".into(), Verdict::Passed)));
        assert_eq!(check("FAILED  the chart is clean"), Some(("the chart is clean".into(), failed())));
        assert_eq!(check("skipped pods: no images"), Some(("pods".into(), Verdict::Skipped("no images".into()))));
        assert_eq!(check("test a::b ... ok"), Some(("a::b".into(), Verdict::Passed)));
        assert_eq!(check("test a::b ... FAILED"), Some(("a::b".into(), failed())));
        assert_eq!(check("        | output of a check"), None);
        assert_eq!(check("3 passed, 0 failed"), None);
    }
}
