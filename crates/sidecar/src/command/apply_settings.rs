//! ApplySettings: answers when the running Valkey has the settings of this revision.

use super::execution::{Execution, Stop, Work};
use crate::state::State;
use std::time::Duration;
use tokio::time::sleep;

const POLL: Duration = Duration::from_millis(100);

pub async fn run(execution: &mut Execution<'_>, revision: &str) -> Work {
    if revision.is_empty() {
        return Err(Stop::invalid("revision is empty"));
    }
    let shared = execution.context.shared.clone();
    let before = shared.lock().settings_revision.clone();
    execution.found(format!("settings {}", before.as_deref().unwrap_or("none")));
    if is_in_force(&shared.lock(), revision) {
        return Ok(false);
    }
    while !execution.left().is_zero() {
        shared.ask_for_review();
        sleep(POLL).await;
        if is_in_force(&shared.lock(), revision) {
            execution.did(format!("applied settings {revision}"));
            return Ok(true);
        }
    }
    Err(Stop::Late(obstacle(&shared.lock(), revision)))
}

fn is_in_force(state: &State, revision: &str) -> bool {
    state.settings_revision.as_deref() == Some(revision) && state.apply_problem.is_none()
}

fn obstacle(state: &State, revision: &str) -> String {
    let problem = state.settings_problem.as_ref().or(state.apply_problem.as_ref());
    problem.cloned().unwrap_or_else(|| format!("settings {revision} have not reached this pod yet"))
}
