//! The rules that no plan may break. Every step is checked against the bare observation, with none of the planner's judgement: who
//! plans wrongly must not check wrongly for the same reason. Pure; `plan` asks, and tests ask after every step.

mod certificates;
mod commands;
mod volumes;
mod writes;

pub use commands::check_commands;
pub use writes::check_write;

use crate::nodes::{PodCommand, PodObservation, Target};
use crate::observation::Observation;
use crate::pods::asked_for;
use crate::step::Step;
use jiff::Timestamp;

/// A step that must not be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step} must not happen: {rule}")]
pub struct Violation {
    pub step: String,
    pub rule: String,
}

/// The steps that may be taken, and what was wrong with the others. When a command breaks a rule, all commands but those that read
/// are dropped: they belong together. Reading goes on, or a mistake made on an old view would never end.
pub fn only_safe(
    steps: Vec<Step>,
    target: Option<&Target>,
    observation: &Observation,
    now: Timestamp,
) -> (Vec<Step>, Vec<Violation>) {
    let commands: Vec<PodCommand> = steps.iter().filter_map(Step::command).cloned().collect();
    let seen = observation.nodes.as_ref();
    let size = live_size(observation);
    let broken = seen.zip(target).and_then(|(seen, target)| check_commands(&commands, target, seen).err());
    let broken = broken.or_else(|| size.and_then(|size| commands::check_size(&commands, size, seen).err()));
    let broken = broken.or_else(|| commands::check_volumes(&commands, observation).err());
    let mut violations: Vec<Violation> = broken.into_iter().collect();
    let command_broken = !violations.is_empty();
    let mut safe = Vec::new();
    for step in steps {
        match (&step, check_write(&step, observation, now)) {
            (Step::Command(command), _) if command_broken && !is_harmless(command, observation) => {}
            (_, Err(rule)) => violations.push(Violation { step: step.to_string(), rule }),
            _ => safe.push(step),
        }
    }
    (safe, violations)
}

/// Of a write under way it is not known whether it has come through.
fn live_size(observation: &Observation) -> Option<u32> {
    let live = observation.stateful_set().map(asked_for);
    live.map(|live| observation.size_under_way.into_iter().fold(live, u32::min))
}

/// It only reads, and from a pod that can be asked.
fn is_harmless(command: &PodCommand, observation: &Observation) -> bool {
    let asked = |pod: &PodObservation| pod.uid == command.pod_uid && pod.connected && !pod.is_busy();
    command.action.is_reading() && observation.nodes.iter().flat_map(|seen| &seen.pods).any(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Action, FailoverMode, NodeObservation};

    fn observed(connected: bool, busy: bool) -> Observation {
        let under_way = if busy { vec![Action::ReadView] } else { Vec::new() };
        let pod = PodObservation { connected, under_way, ..PodObservation::unheard("poc-0".into(), "uid".into()) };
        let nodes = NodeObservation { pods: vec![pod], ..NodeObservation::default() };
        Observation { nodes: Some(nodes), ..Observation::default() }
    }

    #[test]
    fn of_a_dropped_plan_only_reads_from_pods_that_can_be_asked_are_left() {
        let command = |action| PodCommand { pod: "poc-0".into(), pod_uid: "uid".into(), action };
        let (read, act) = (command(Action::ReadView), command(Action::Failover(FailoverMode::Force, None)));
        assert!(is_harmless(&read, &observed(true, false)) && !is_harmless(&act, &observed(true, false)));
        assert!(!is_harmless(&read, &observed(true, true)) && !is_harmless(&read, &observed(false, false)));
        assert!(!is_harmless(&read, &Observation::default()));
    }
}
