//! Where an end-to-end test may run. Each says so itself when asked: with `E2E_DESCRIBE=1` a scenario prints its needs and ends. IO.

use crate::suites::Case;
use futures::future::join_all;
use std::time::Duration;
use tokio::{sync::Semaphore, time::timeout};

const ASKED_AT_ONCE: usize = 4;
/// One that does not answer is run like a test without needs, where its own limit ends it.
const TO_ANSWER: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No cluster at all.
    Nothing,
    /// A testbed, beside others that take these slots.
    Shared(u32),
    /// A testbed that nobody else uses.
    Alone,
    /// The machine: it makes testbeds itself, one such test at a time.
    Machine,
}

/// Every test with what it needs. Only those of `e2e` can need anything.
pub async fn of(cases: Vec<Case>) -> Vec<(Case, Needs)> {
    let turn = Semaphore::new(ASKED_AT_ONCE);
    let ask = async |case: Case| {
        if case.suite.package != "e2e" {
            return (case, Needs::Nothing);
        }
        let _turn = turn.acquire().await;
        let mut command = case.command();
        let answer = timeout(TO_ANSWER, command.env("E2E_DESCRIBE", "1").kill_on_drop(true).output()).await;
        let needs = match answer {
            Ok(Ok(output)) => parse(&String::from_utf8_lossy(&output.stdout)),
            _ => Needs::Nothing,
        };
        (case, needs)
    };
    join_all(cases.into_iter().map(ask)).await
}

fn parse(said: &str) -> Needs {
    let words = said.lines().find_map(|line| line.split_once("needs: ")).map(|(_, words)| words);
    match words.map(|words| words.split_once(' ').unwrap_or((words, ""))) {
        Some(("machine", _)) => Needs::Machine,
        Some(("alone", _)) => Needs::Alone,
        Some(("shared", slots)) => Needs::Shared(slots.parse().unwrap_or(1)),
        _ => Needs::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_names_its_needs_and_other_tests_have_none() {
        let said = |words: &str| format!("running 1 test\ntest a ... {words}\nok\n");
        assert_eq!(parse(&said("needs: shared 2")), Needs::Shared(2));
        assert_eq!(parse(&said("needs: alone")), Needs::Alone);
        assert_eq!(parse(&said("needs: machine")), Needs::Machine);
        assert_eq!(parse(&said("")), Needs::Nothing);
    }
}
