//! What became of one test, and the texts made of many of them: a line when it ends, the account at the end. Pure.

use std::{path::PathBuf, time::Duration};

const SLOWEST: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// Why, in one line.
    Failed(String),
    Skipped(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Such as `sidecar/real::probes::a_hung_server_is_told_apart`, or the sentence of a script's check.
    pub name: String,
    pub verdict: Verdict,
    pub took: Duration,
    pub log: Option<PathBuf>,
    /// What a failed end-to-end test collected.
    pub evidence: Option<PathBuf>,
}

impl Outcome {
    pub fn is_failure(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }

    fn is_skipped(&self) -> bool {
        matches!(self.verdict, Verdict::Skipped(_))
    }

    fn seconds(&self) -> f64 {
        self.took.as_secs_f64()
    }
}

/// What people see when a test has ended.
pub fn line(outcome: &Outcome) -> String {
    let (name, seconds) = (&outcome.name, outcome.seconds());
    match &outcome.verdict {
        Verdict::Passed => format!("ok      {seconds:6.1} s  {name}"),
        Verdict::Failed(reason) => format!("FAILED  {seconds:6.1} s  {name}: {reason}"),
        Verdict::Skipped(reason) => format!("skipped           {name}: {reason}"),
    }
}

/// All that a run has to say in the end, after the output of what failed.
pub fn account(outcomes: &[Outcome], elapsed: Duration, whole: bool) -> String {
    let parts = [not_run(outcomes), slowest(outcomes), failures(outcomes)].concat();
    format!("{parts}\n{}\n", result(outcomes, elapsed, whole))
}

/// The last line, in the form that every program that reads the output of `cargo test` knows.
fn result(outcomes: &[Outcome], elapsed: Duration, whole: bool) -> String {
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| wanted(outcome)).count();
    let (failed, skipped) = (count(Outcome::is_failure), count(Outcome::is_skipped));
    let passed = outcomes.len() - failed - skipped;
    let word = if whole && failed == 0 { "ok" } else { "FAILED" };
    let counts = format!("{passed} passed; {failed} failed; {skipped} ignored; 0 measured; 0 filtered out");
    format!("test result: {word}. {counts}; finished in {:.2}s", elapsed.as_secs_f64())
}

fn slowest(outcomes: &[Outcome]) -> String {
    let mut ran: Vec<_> = outcomes.iter().filter(|outcome| !outcome.is_skipped()).collect();
    ran.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    let lines = ran.iter().take(SLOWEST).map(|outcome| format!("{:8.1} s  {}\n", outcome.seconds(), outcome.name));
    format!("\nslowest tests\n{}", lines.collect::<String>())
}

/// By reason, because one reason often holds for many.
fn not_run(outcomes: &[Outcome]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for outcome in outcomes {
        let Verdict::Skipped(reason) = &outcome.verdict else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(&outcome.name),
            None => reasons.push((reason, vec![&outcome.name])),
        }
    }
    let paragraph = |(reason, names): (&str, Vec<&str>)| {
        format!("\nskipped: {reason}\n{}", names.iter().map(|name| format!("  {name}\n")).collect::<String>())
    };
    reasons.into_iter().map(paragraph).collect()
}

fn failures(outcomes: &[Outcome]) -> String {
    let lines: String = outcomes.iter().filter_map(failure).collect();
    if lines.is_empty() { lines } else { format!("\nfailed\n{lines}") }
}

/// Three lines at most: what, why, where to look. Nothing for a test that did not fail.
fn failure(outcome: &Outcome) -> Option<String> {
    let Verdict::Failed(reason) = &outcome.verdict else { return None };
    let places = [("log", &outcome.log), ("evidence", &outcome.evidence)];
    let places =
        places.into_iter().filter_map(|(what, path)| Some(format!("    {what}: {}\n", path.as_ref()?.display())));
    Some(format!("  {} ({:.1} s): {reason}\n{}", outcome.name, outcome.seconds(), places.collect::<String>()))
}

/// `12:05` for minutes and seconds.
pub fn clock(elapsed: Duration) -> String {
    format!("{:2}:{:02}", elapsed.as_secs() / 60, elapsed.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, verdict: Verdict, seconds: u64) -> Outcome {
        Outcome { name: name.into(), verdict, took: Duration::from_secs(seconds), log: None, evidence: None }
    }

    #[test]
    fn the_last_line_counts_everything_and_reads_like_cargos() {
        let skipped = Verdict::Skipped("left to another day".into());
        let outcomes =
            [outcome("a", Verdict::Passed, 1), outcome("c", skipped, 0), outcome("b", Verdict::Failed("no".into()), 2)];
        let last = |outcomes, whole| {
            let text = account(outcomes, Duration::from_millis(2500), whole);
            text.lines().last().unwrap().to_owned()
        };
        let all = "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2.50s";
        assert_eq!(last(&outcomes, true), all);
        let well = "test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2.50s";
        assert_eq!(last(&outcomes[..2], true), well);
        assert!(last(&outcomes[..2], false).starts_with("test result: FAILED. 1 passed; 0 failed;"));
    }

    #[test]
    fn a_failure_is_told_with_its_reason_and_where_to_look() {
        let (log, evidence) = (Some(PathBuf::from("logs/b.log")), Some(PathBuf::from("e2e-failures/b")));
        let failed = Outcome { log, evidence, ..outcome("b", Verdict::Failed("it broke".into()), 2) };
        let text = account(&[failed], Duration::ZERO, true);
        assert!(text.contains("  b (2.0 s): it broke\n    log: logs/b.log\n    evidence: e2e-failures/b\n"), "{text}");
    }

    #[test]
    fn the_slowest_come_first_and_are_not_too_many() {
        let outcomes: Vec<_> =
            (0..30).map(|number| outcome(&format!("test-{number}"), Verdict::Passed, number)).collect();
        let text = slowest(&outcomes);
        assert!(text.starts_with("\nslowest tests\n    29.0 s  test-29\n"), "{text}");
        assert_eq!(text.lines().count(), SLOWEST + 2);
    }

    #[test]
    fn what_was_skipped_for_one_reason_is_listed_together() {
        let skipped = |name| outcome(name, Verdict::Skipped("no testbed".into()), 0);
        assert_eq!(not_run(&[skipped("a"), skipped("b")]), "\nskipped: no testbed\n  a\n  b\n");
    }

    #[test]
    fn a_line_has_name_result_and_time() {
        assert_eq!(line(&outcome("a", Verdict::Passed, 3)), "ok         3.0 s  a");
        assert_eq!(line(&outcome("b", Verdict::Failed("no".into()), 70)), "FAILED    70.0 s  b: no");
    }

    #[test]
    fn minutes_and_seconds_are_told_apart() {
        assert_eq!(clock(Duration::from_secs(725)), "12:05");
    }
}
