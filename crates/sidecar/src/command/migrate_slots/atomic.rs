//! Valkey moves slots by itself: begun, followed, and cancelled when the time is over. From 9.0 on.

use super::{
    super::execution::{Execution, Stop},
    other_end::OtherEnd,
};
use sidecar_rules::commands::migrate_slots::Portion;
use std::time::Duration;
use tokio::time::sleep;
use topology::{NodeId, SlotSet};
use valkey::{Address, CallError, Connection, SlotMigration};

const POLL: Duration = Duration::from_millis(15);
/// Kept back for cancelling.
const CANCELLING: Duration = Duration::from_millis(300);
const IN_VAIN: usize = 2;
/// What Valkey says when it does not know whether the target took over before the clients were let go.
const DOUBT: &str = "lost writes";

pub async fn migrate(execution: &mut Execution<'_>, target: &OtherEnd, taken: &Portion) -> Result<(), Stop> {
    let mut connection = execution.connect().await?;
    let before: Vec<String> = names(connection.cluster_slot_migrations().await?);
    connection.cluster_migrate_slots(&taken.slots, &target.id).await?;
    execution.did(format!("CLUSTER MIGRATESLOTS {} to {}", taken.slots, target.id));
    let job = follow(execution, |job| !before.contains(&job.name) && job.slots == taken.slots).await?;
    match job.succeeded() {
        true => {
            execution.moved(taken.slots.count(), taken.keys);
            Ok(())
        }
        false => Err(failure(&job)),
    }
}

/// Waits for the job that is under way, whoever began it; `None` when there is none.
pub async fn finish_running(execution: &mut Execution<'_>) -> Result<Option<SlotMigration>, Stop> {
    let jobs = execution.connect().await?.cluster_slot_migrations().await?;
    let Some(running) = jobs.into_iter().find(|job| job.export && !job.is_over()) else { return Ok(None) };
    let job = follow(execution, |job| job.name == running.name).await?;
    match job.message.contains(DOUBT) {
        true => Err(failure(&job)),
        false => Ok(Some(job)),
    }
}

/// True when there was one to cancel.
pub async fn cancel(connection: &mut Connection) -> Result<bool, CallError> {
    let jobs = connection.cluster_slot_migrations().await?;
    let running = jobs.iter().any(|job| job.export && !job.is_over());
    if running {
        connection.cluster_cancel_slot_migrations().await?;
    }
    Ok(running)
}

/// The last ones to this target failed, and not because of something that has passed.
pub async fn in_vain(execution: &Execution<'_>, target: &NodeId) -> Result<bool, Stop> {
    let jobs = execution.connect().await?.cluster_slot_migrations().await?;
    Ok(failed_twice(&jobs, target))
}

/// `jobs`: the newest first.
fn failed_twice(jobs: &[SlotMigration], target: &NodeId) -> bool {
    let last = jobs.iter().filter(|job| job.export && job.target == *target).take(IN_VAIN);
    last.filter(|job| job.state == "failed" && !job.message.contains(DOUBT)).count() == IN_VAIN
}

async fn follow(execution: &Execution<'_>, is_it: impl Fn(&SlotMigration) -> bool) -> Result<SlotMigration, Stop> {
    while execution.left() > CANCELLING && !execution.context.shared.slot_moves.are_to_end() {
        let jobs = execution.connect().await?.cluster_slot_migrations().await?;
        let Some(job) = jobs.into_iter().find(&is_it) else {
            return Err(Stop::Failed("Valkey does not list the migration any more".into()));
        };
        if job.is_over() {
            return Ok(job);
        }
        sleep(POLL).await;
    }
    Err(Stop::Late(give_up(execution).await))
}

/// Nothing is left under way that the next command would not know of.
async fn give_up(execution: &Execution<'_>) -> String {
    let address = Address::Unix(execution.context.socket.clone());
    let cancelled = match Connection::open(&address, CANCELLING).await {
        Ok(mut connection) => cancel(&mut connection).await,
        Err(error) => Err(error),
    };
    match cancelled {
        Ok(true) => "the migration was not done in time and was cancelled: the slots stay here".to_owned(),
        Ok(false) => "the migration came to its end in the last moment".to_owned(),
        Err(error) => format!("the migration was not done in time and could not be cancelled: {error}"),
    }
}

fn failure(job: &SlotMigration) -> Stop {
    let SlotMigration { slots, target, state, message, .. } = job;
    let warning = if message.contains(DOUBT) { "WRITES MAY BE LOST: " } else { "" };
    Stop::Failed(format!("{warning}the migration of {} to {target} ended as {state}: {message}", text(slots)))
}

fn text(slots: &SlotSet) -> String {
    format!("{} slots ({slots})", slots.count())
}

fn names(jobs: Vec<SlotMigration>) -> Vec<String> {
    jobs.into_iter().map(|job| job.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_possible_loss_comes_first() {
        let message = "Unable to unpause; migration may have succeeded with lost writes".to_owned();
        let (name, state) = ("n".to_owned(), "failed".to_owned());
        let slots = "1-3".parse().unwrap();
        let failed = failure(&SlotMigration { name, export: true, slots, target: "t".into(), state, message });
        assert!(failed.to_string().starts_with("WRITES MAY BE LOST: the migration of 3 slots (1-3) to t"), "{failed}");
    }

    #[test]
    fn what_failed_twice_in_a_row_is_not_tried_again() {
        let job = |target: &str, state: &str, message: &str| {
            let (name, slots, state, message) = ("n".into(), "1".parse().unwrap(), state.into(), message.into());
            SlotMigration { name, export: true, slots, target: target.into(), state, message }
        };
        let [failed, done, elsewhere] = [job("t", "failed", ""), job("t", "success", ""), job("u", "failed", "")];
        let asked = |jobs: &[&SlotMigration]| {
            failed_twice(&jobs.iter().map(|job| (*job).clone()).collect::<Vec<_>>(), &"t".into())
        };
        assert!(asked(&[&failed, &elsewhere, &failed, &done]));
        assert!(!asked(&[&failed, &done, &failed]) && !asked(&[&failed, &elsewhere]) && !asked(&[]));
        assert!(!asked(&[&failed, &job("t", "failed", DOUBT)]) && !asked(&[&failed, &job("t", "cancelled", "")]));
    }
}
