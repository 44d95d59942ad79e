//! Many tests beside each other, each in a process of its own, never more than there are slots for; the longest begin first. IO.

use crate::{
    outcome::{Outcome, Verdict},
    process,
    session::Session,
    suites::Case,
};
use futures::future::join_all;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};
use tokio::{process::Command, sync::Semaphore};

/// A test and how many slots it takes.
pub struct Job {
    pub case: Case,
    pub slots: u32,
}

/// A place for tests: what it is called in the account, how many slots it has, and which variables lead tests to it.
pub struct Pool {
    pub part: &'static str,
    pub slots: u32,
    pub variables: Vec<(String, String)>,
}

impl Pool {
    pub async fn run(&self, session: &Session, mut jobs: Vec<Job>) {
        jobs.sort_by_key(|job| std::cmp::Reverse(session.times.of(&job.case.name())));
        let free = Semaphore::new(self.slots as usize);
        let run = async |job: Job| {
            // The semaphore is never closed, so there is always a permit in the end.
            let _held = free.acquire_many(job.slots.min(self.slots)).await;
            self.run_one(session, &job.case).await;
        };
        join_all(jobs.into_iter().map(run)).await;
    }

    async fn run_one(&self, session: &Session, case: &Case) {
        let name = case.name();
        if session.is_interrupted() {
            return session.skip(self.part, &name, "the run was interrupted");
        }
        let (log, mut command) = (session.log_of(&name), case.command());
        command.envs(self.variables.iter().cloned());
        session.begin(&name);
        let began = Instant::now();
        let ended = process::run(session, command, &log, session.limit).await;
        let took = began.elapsed();
        let said = fs::read(&log).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
        let verdict = verdict(ended, &said);
        session.record(self.part, Outcome { name, verdict, took, log: Some(log), evidence: evidence(&said) });
    }
}

/// One command that others wait for, such as the start of a testbed. A failure is told like a test's.
pub async fn prepare(session: &Session, part: &'static str, what: &str, mut command: Command) -> bool {
    session.say(what);
    session.begin(what);
    let (log, began) = (session.log_of(what), Instant::now());
    command.current_dir(&session.repository);
    let ended = process::run(session, command, &log, session.limit * 2).await;
    session.end(what);
    succeeded(session, part, what, ended, began, log)
}

/// The same for what has to be done in the end, also after Ctrl-C.
pub async fn tidy(session: &Session, part: &'static str, what: &str, command: Command) {
    let (log, began) = (session.log_of(what), Instant::now());
    let ended = process::run_undisturbed(command, &log).await;
    succeeded(session, part, what, ended, began, log);
}

fn succeeded(
    session: &Session,
    part: &'static str,
    what: &str,
    ended: process::Ended,
    began: Instant,
    log: PathBuf,
) -> bool {
    let Err(reason) = ended else { return true };
    let (name, verdict) = (what.to_owned(), Verdict::Failed(reason));
    session.record(part, Outcome { name, verdict, took: began.elapsed(), log: Some(log), evidence: None });
    false
}

fn verdict(ended: process::Ended, said: &str) -> Verdict {
    let skipped = said.lines().find_map(|line| line.strip_prefix("SKIPPED ")?.split_once(": "));
    match (ended, skipped) {
        (Ok(()), Some((_, reason))) => Verdict::Skipped(reason.to_owned()),
        (Ok(()), None) => Verdict::Passed,
        (Err(status), _) => Verdict::Failed(reason(said).unwrap_or(status)),
    }
}

/// What says most in a line: the error that a test returned with its first cause, or where and why it panicked.
fn reason(said: &str) -> Option<String> {
    if let Some((_, error)) = said.split_once("\nError: ") {
        let mut lines = error.lines();
        let first = lines.next()?;
        let cause =
            lines.skip_while(|line| *line != "Caused by:").nth(1).map(|line| line.trim().trim_start_matches("0: "));
        return Some(cause.map_or_else(|| first.to_owned(), |cause| format!("{first}: {cause}")));
    }
    let (_, panic) = said.split_once("' panicked at ").or_else(|| said.split_once(") panicked at "))?;
    Some(panic.lines().take(2).collect::<Vec<_>>().join(" "))
}

/// Where the harness of the end-to-end tests says that it has put what it collected.
fn evidence(said: &str) -> Option<PathBuf> {
    let path = said.lines().find_map(|line| line.split_once(" failed; collected in "))?.1;
    Some(Path::new(path.trim()).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::scripted;
    use std::{collections::BTreeMap, time::Duration};

    const RUN: &str = "case $2 in
        fails) echo \"thread 'fails' (1) panicked at src/lib.rs:3:5:\"; echo 'it broke'; exit 101 ;;
        hangs) sleep 1000 & wait ;;
    esac";

    #[tokio::test]
    async fn what_fails_or_hangs_is_told_and_keeps_nothing_else_from_running() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let session = Session::at(folder.path().to_owned(), target, Duration::from_secs(5)).unwrap();
        let cases = scripted::cases(folder.path(), &["fails", "hangs", "passes"], RUN).await;
        let pool = Pool { part: "unit", slots: 1, variables: Vec::new() };
        pool.run(&session, cases.into_iter().map(|case| Job { case, slots: 2 }).collect()).await;
        let failed = |reason: &str| Verdict::Failed(reason.to_owned());
        let ended: BTreeMap<_, _> =
            session.outcomes().into_iter().map(|outcome| (outcome.name, outcome.verdict)).collect();
        assert_eq!(ended.len(), 3);
        assert_eq!(ended["scripted::fails"], failed("src/lib.rs:3:5: it broke"));
        assert_eq!(ended["scripted::passes"], Verdict::Passed);
        let Verdict::Failed(hung) = &ended["scripted::hangs"] else { panic!("{ended:?}") };
        assert!(hung.starts_with("killed after 5 s; at work then") && hung.ends_with("sleep 1000"), "{hung}");
        assert!(!session.close().unwrap());
    }

    const FAILED: &str = "
running 1 test
Error: forming failed; collected in /repo/e2e-failures/forming

Caused by:
    waited 75.0 s for the cluster to be whole; last seen: nothing
test form::forming ... FAILED
";

    #[test]
    fn a_returned_error_is_told_with_its_first_cause_and_its_evidence() {
        let Verdict::Failed(reason) = verdict(Err("exit status: 101".into()), FAILED) else { panic!() };
        let cause = "forming: waited 75.0 s for the cluster to be whole; last seen: nothing";
        assert!(reason.ends_with(cause), "{reason}");
        assert_eq!(evidence(FAILED), Some("/repo/e2e-failures/forming".into()));
    }

    #[test]
    fn a_panic_is_told_with_its_place_and_message() {
        let said = "running 1 test\n\nthread 'a::b' (12) panicked at src/lib.rs:3:5:\nassertion failed: no\nnote: …\n";
        assert_eq!(verdict(Err("exit".into()), said), Verdict::Failed("src/lib.rs:3:5: assertion failed: no".into()));
    }

    #[test]
    fn without_a_word_the_exit_status_is_the_reason() {
        assert_eq!(verdict(Err("signal: 9".into()), ""), Verdict::Failed("signal: 9".into()));
    }

    #[test]
    fn a_test_that_says_so_was_skipped() {
        let said = "running 1 test\nSKIPPED node-cut: it breaks nodes\ntest node_cut ... ok\n";
        assert_eq!(verdict(Ok(()), said), Verdict::Skipped("it breaks nodes".into()));
        assert_eq!(verdict(Ok(()), "test node_cut ... ok"), Verdict::Passed);
    }
}
