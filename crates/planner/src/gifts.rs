//! Slots and primaries that nodes are not told to take yet. Pure; a part of `plan`: the nodes alone do not show whether a pod ends, nor
//! what a volume holds whose pod is away.

use crate::claim_facts::ClaimFacts;
use crate::nodes::{Action, PodCommand, PodObservation, Valkey};
use crate::observation::Observation;
use crate::report::Report;
use std::collections::BTreeSet;
use topology::PodName;

pub fn hold_back(commands: &mut Vec<PodCommand>, observation: &Observation, report: &mut Report) {
    let planned = told(commands);
    hold_back_gifts(commands, observation, report);
    let left = told(commands);
    // Whoever is given nothing has nothing new to tell: asked all the same, its answer would ask for the next plan, and that for an answer.
    commands.retain(|command| {
        !command.action.is_reading() || left.contains(&command.pod) || !planned.contains(&command.pod)
    });
}

/// The pods that are told to do something.
fn told(commands: &[PodCommand]) -> BTreeSet<PodName> {
    let acting = commands.iter().filter(|command| !command.action.is_reading());
    acting.map(|command| command.pod.clone()).collect()
}

fn hold_back_gifts(commands: &mut Vec<PodCommand>, observation: &Observation, report: &mut Report) {
    hold_back_slots(commands, observation, report);
    let (kept, held): (Vec<_>, Vec<_>) = std::mem::take(commands)
        .into_iter()
        .partition(|command| receiver(command, observation).is_none_or(|pod| stays(pod, observation)));
    *commands = kept;
    if let Some(command) = held.first() {
        report.waiting.push(format!(
            "{} is told to {} once the pod that gets something is there to stay",
            command.pod, command.action
        ));
    }
}

/// Who is given something by this command.
fn receiver<'o>(command: &PodCommand, observation: &'o Observation) -> Option<&'o PodObservation> {
    let mut pods = observation.nodes.iter().flat_map(|nodes| &nodes.pods);
    match &command.action {
        Action::MigrateSlots(_, to, _) => {
            pods.find(|pod| matches!(&pod.valkey, Valkey::Answers(facts) if facts.node_id == *to))
        }
        action if action.is_gift() => pods.find(|pod| pod.uid == command.pod_uid),
        _ => None,
    }
}

/// A pod that is about to end is given nothing: whoever wrote to its slots would lose that with the pod.
/// Neither the StatefulSet, as it is now, nor anybody else is ending this one.
fn stays(pod: &PodObservation, observation: &Observation) -> bool {
    let facts = observation.pods.iter().find(|facts| facts.uid == pod.uid.as_str());
    let ends = facts.is_some_and(|pod| pod.terminating);
    !ends && pod.name.ordinal().is_some_and(|ordinal| gets_a_pod(ordinal, observation))
}

/// The slots of a cluster that is not on record yet may be on a volume whose pod was not heard. What goes with them waits too.
fn hold_back_slots(commands: &mut Vec<PodCommand>, observation: &Observation, report: &mut Report) {
    let are_given = commands.iter().any(|command| matches!(command.action, Action::AddSlots(_)));
    if let Some(claim) = unread_volume(observation).filter(|_| are_given) {
        commands.retain(|command| !command.action.is_gift());
        report.waiting.push(format!("slots are given away once the node on volume claim {} was heard", claim.name));
    }
}

fn unread_volume(observation: &Observation) -> Option<&ClaimFacts> {
    let nodes = observation.nodes.as_ref().filter(|nodes| nodes.recorded.is_empty())?;
    let heard = |pod: &&PodObservation| pod.connected && matches!(pod.valkey, Valkey::Answers(_));
    let is_read = |claim: &ClaimFacts| nodes.pods.iter().filter(heard).any(|pod| claim.belongs_to(pod.name.as_str()));
    let comes = |claim: &ClaimFacts| {
        let ordinal = PodName::from(claim.name.as_str()).ordinal();
        ordinal.is_some_and(|ordinal| gets_a_pod(ordinal, observation))
    };
    observation.claims.iter().find(|claim| comes(claim) && !is_read(claim))
}

/// One that is made again gets at least as many pods as there are.
fn gets_a_pod(ordinal: usize, observation: &Observation) -> bool {
    let size = observation.certain_size().and_then(|size| usize::try_from(size).ok());
    size.is_none_or(|size| ordinal < size)
}
