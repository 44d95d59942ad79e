//! Test scripts, which say a line for each check: `ok      sentence` and `FAILED  sentence` as those that source `scripts/checks.sh` do,
//! or `test name ... ok` as cargo does. IO; reading a line is pure.

use crate::{
    outcome::{Outcome, Verdict},
    process,
    session::Session,
};
use anyhow::{Context, Result};
use futures::future::{Either, select};
use std::{
    fs::File,
    io::{BufRead, BufReader, PipeReader, Write},
    path::Path,
    pin::pin,
    time::{Duration, Instant},
};
use tokio::{process::Command, sync::mpsc, time::timeout};

const LAST_LINES: Duration = Duration::from_secs(5);

/// Runs the script; each of its checks is an outcome, and so is the script itself when it fails without naming one.
pub async fn run(session: &Session, part: &'static str, name: &str, mut command: Command, limit: Duration) {
    session.say(name);
    session.begin(name);
    let (log, began) = (session.log_of(name), Instant::now());
    command.current_dir(&session.repository);
    let mut checks = Checks::default();
    let ended = match follow(&mut command, &log) {
        Ok(lines) => {
            let recording = pin!(checks.record(session, part, name, &log, lines));
            match select(pin!(process::end(session, command, limit)), recording).await {
                // What it left running keeps the pipe open for ever.
                Either::Left((ended, recording)) => {
                    let _ = timeout(LAST_LINES, recording).await;
                    ended
                }
                Either::Right(((), ending)) => ending.await,
            }
        }
        Err(error) => Err(format!("{error:#}")),
    };
    session.end(name);
    let verdict = match ended {
        Ok(()) if checks.all == 0 => Verdict::Passed,
        Err(reason) if checks.failed == 0 || session.is_interrupted() => Verdict::Failed(reason),
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
    // Not one of the runtime's threads, which would be waited for.
    std::thread::spawn(move || copy(reader, file, &sender));
    Ok(lines)
}

fn copy(reader: PipeReader, mut log: File, sender: &mpsc::UnboundedSender<(Instant, String)>) {
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        let _ = writeln!(log, "{line}");
        let _ = sender.send((Instant::now(), line));
    }
}

#[derive(Default)]
struct Checks {
    all: usize,
    failed: usize,
}

impl Checks {
    async fn record(&mut self, session: &Session, part: &'static str, script: &str, log: &Path, mut lines: Lines) {
        let mut before = Instant::now();
        while let Some((at, line)) = lines.recv().await {
            let Some((sentence, verdict)) = check(&line) else { continue };
            self.all += 1;
            self.failed += usize::from(matches!(verdict, Verdict::Failed(_)));
            let (name, took) = (format!("{script}: {sentence}"), at.duration_since(before));
            session.record(part, Outcome { name, verdict, took, log: Some(log.to_owned()), evidence: None });
            before = at;
        }
    }
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
