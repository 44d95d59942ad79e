//! The operator's commands, carried out on this pod's own Valkey. Each looks first, does what is missing, looks again and
//! answers what it found and did; asked twice, the second finds the work done. What would lose data, as far as this node
//! can see, is refused here too, whoever asks. IO; the line calls it.

mod add_slots;
mod apply_settings;
mod desk;
mod failover;
mod forget;
mod full_view;
mod meet;
mod neighbour;
mod open_gate;
#[cfg(test)]
mod real_tests;
mod replicate;
mod set_config_epoch;

use crate::state::Shared;
use desk::{Desk, Stop, Work};
use link::{
    client::Order,
    contract::{FullView, answer::Outcome, command::Action},
};
use std::path::PathBuf;

pub struct Context {
    /// Valkey's Unix socket.
    pub socket: PathBuf,
    pub shared: Shared,
}

pub async fn execute(order: Order, context: &Context) -> Outcome {
    let mut desk = Desk::new(context, order.deadline);
    let mut view = None;
    let result = carry_out(&mut desk, &order.action, &mut view).await;
    desk.outcome(result, view).await
}

async fn carry_out(desk: &mut Desk<'_>, action: &Action, view: &mut Option<FullView>) -> Work {
    match action {
        Action::Probe(_) => desk.look().await.map(|_| false),
        Action::ReadView(_) => {
            *view = full_view::full_view(&desk.look().await?);
            Ok(false)
        }
        Action::Meet(meet) => meet::run(desk, meet).await,
        Action::AddSlots(add_slots) => add_slots::run(desk, add_slots).await,
        Action::SetConfigEpoch(wanted) => set_config_epoch::run(desk, wanted).await,
        Action::Replicate(replicate) => replicate::run(desk, replicate).await,
        Action::Failover(failover) => failover::run(desk, failover.mode()).await,
        Action::Forget(forget) => forget::run(desk, forget).await,
        Action::ApplySettings(wanted) => apply_settings::run(desk, &wanted.revision).await,
        Action::OpenGate(wanted) => open_gate::run(desk, wanted.start()).await,
        Action::ReloadAcl(_) => Err(Stop::unknown("access rules are not reloaded by command yet")),
        Action::ReloadCertificates(_) => {
            Err(Stop::unknown("certificates of Valkey's ports are not reloaded by command yet"))
        }
        Action::MigrateSlots(_) | Action::CancelMigration(_) => {
            Err(Stop::unknown("slots are not moved by command yet"))
        }
    }
}
