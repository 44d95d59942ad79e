//! The output of what failed, for the end of a run: whoever reads only that has all there is to know. Reads logs.

use crate::outcome::Outcome;
use std::{fs, path::Path};

/// Lines of one log; before these the log itself is better to read.
const MOST: usize = 200;

/// Each log once, under the names of all failures that share it, as the checks of a script do.
pub fn of_failures(outcomes: &[Outcome]) -> String {
    let mut logs: Vec<(&Path, Vec<&str>)> = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.is_failure()) {
        let Some(log) = outcome.log.as_deref() else { continue };
        match logs.iter_mut().find(|(known, _)| *known == log) {
            Some((_, names)) => names.push(&outcome.name),
            None => logs.push((log, vec![&outcome.name])),
        }
    }
    logs.into_iter().map(|(log, names)| format!("\n---- {} ----\n{}", names.join(", "), tail(log))).collect()
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // A run has one result, and whoever looks for it must not find those of single tests.
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("test result: ")).collect();
    let left_out = lines.len().saturating_sub(MOST);
    let before =
        if left_out > 0 { format!("({left_out} lines before these: {})\n", log.display()) } else { String::new() };
    let shown: String = lines.iter().skip(left_out).map(|line| format!("{line}\n")).collect();
    before + &shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Verdict;
    use std::time::Duration;

    fn outcome(name: &str, verdict: Verdict, log: &Path) -> Outcome {
        let (name, log) = (name.to_owned(), Some(log.to_owned()));
        Outcome { name, verdict, took: Duration::ZERO, log, evidence: None }
    }

    #[test]
    fn failures_that_share_a_log_show_it_once_and_others_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, "it broke\ntest result: FAILED. 0 passed; 1 failed\n").unwrap();
        let failed = |name| outcome(name, Verdict::Failed("no".into()), &log);
        let outcomes = [failed("a"), outcome("b", Verdict::Passed, &log), failed("c")];
        assert_eq!(of_failures(&outcomes), "\n---- a, c ----\nit broke\n");
    }

    #[test]
    fn of_a_long_log_the_end_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, (0..MOST + 5).map(|number| format!("{number}\n")).collect::<String>()).unwrap();
        let text = tail(&log);
        assert!(text.starts_with(&format!("(5 lines before these: {})\n5\n", log.display())), "{text}");
        assert!(text.ends_with(&format!("\n{}\n", MOST + 4)));
    }
}
