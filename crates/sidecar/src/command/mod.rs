//! The operator's commands, carried out on this pod's own Valkey. Each checks first, does what is missing, checks again and
//! answers what it found and did; a repeated command finds the work done. `sidecar_rules::commands` says what is refused.
//! IO; the line calls it.

mod add_slots;
mod apply_settings;
mod execution;
mod failover;
mod forget;
mod full_view;
mod leave;
mod meet;
mod migrate_slots;
mod neighbour;
mod open_gate;
#[cfg(test)]
mod real_tests;
mod replicate;
mod set_config_epoch;

use crate::state::Shared;
use execution::{Execution, Stop, Work};
use link::{
    client::Order,
    contract::{FullView, answer::Outcome, command::Action},
};
use std::path::PathBuf;
use tokio::sync::OwnedMutexGuard;

pub struct Context {
    /// Valkey's Unix socket.
    pub socket: PathBuf,
    /// Where Valkey keeps its files.
    pub data_dir: PathBuf,
    pub shared: Shared,
}

pub async fn execute(order: Order, context: &Context) -> Outcome {
    let mut execution = Execution::new(context, order.deadline);
    let mut view = None;
    let result = carry_out(&mut execution, &order.action, &mut view).await;
    execution.outcome(result, view).await
}

async fn carry_out(execution: &mut Execution<'_>, action: &Action, view: &mut Option<FullView>) -> Work {
    match action {
        Action::Probe(_) => execution.observe().await.map(|_| false),
        Action::ReadView(_) => {
            *view = full_view::full_view(&execution.observe().await?);
            Ok(false)
        }
        Action::Meet(meet) => meet::run(execution, meet).await,
        Action::AddSlots(add_slots) => add_slots::run(execution, add_slots).await,
        Action::SetConfigEpoch(wanted) => set_config_epoch::run(execution, wanted).await,
        Action::Replicate(replicate) => replicate::run(execution, replicate).await,
        Action::Failover(failover) => failover::run(execution, failover).await,
        Action::Forget(forget) => forget::run(execution, forget).await,
        Action::ApplySettings(wanted) => apply_settings::run(execution, &wanted.revision).await,
        Action::OpenGate(wanted) => open_gate::run(execution, wanted.start()).await,
        Action::ReloadAcl(_) => Err(Stop::unknown("access rules are not reloaded by command yet")),
        Action::ReloadCertificates(_) => {
            Err(Stop::unknown("certificates of Valkey's ports are not reloaded by command yet"))
        }
        Action::MigrateSlots(ordered) => {
            let _turn = turn(execution).await?;
            migrate_slots::run(execution, ordered).await
        }
        Action::CancelMigration(_) => migrate_slots::cancel(execution).await,
        Action::Leave(_) => {
            let _turn = turn(execution).await?;
            leave::run(execution).await
        }
    }
}

/// One at a time, and none while this node hands over.
async fn turn(execution: &Execution<'_>) -> Result<OwnedMutexGuard<()>, Stop> {
    let moves = &execution.context.shared.slot_moves;
    let turn = moves.turn(execution.left() / 2).await;
    let turn = turn.ok_or_else(|| Stop::Late("another command that moves slots goes on here".into()))?;
    match moves.are_to_end() {
        true => Err(Stop::Failed("this node hands over: no slots are moved meanwhile".into())),
        false => Ok(turn),
    }
}
