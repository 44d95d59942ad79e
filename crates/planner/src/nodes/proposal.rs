//! What one kind of orchestration would do now, and the pacing of its commands. Pure.

use super::action::{Action, Peer, PodCommand};
use super::cluster_model::Member;
use super::limits::{self, age};
use super::observation::Outcome;
use super::record::{OrchestrationKind, Stage};
use api::conditions::Reason;
use jiff::Timestamp;

#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub kind: OrchestrationKind,
    pub step: Stage,
    pub commands: Vec<PodCommand>,
    /// How far it is, in words.
    pub detail: Option<String>,
    /// What it waits for, in words.
    pub waits: Vec<String>,
    /// What only a change from outside can solve.
    pub blocked: Vec<(Reason, String)>,
    /// Nothing of it can move now: others may have their turn.
    pub stuck: bool,
}

impl Proposal {
    pub fn new(kind: OrchestrationKind, step: Stage, commands: Vec<PodCommand>) -> Proposal {
        Proposal { kind, step, commands, detail: None, waits: Vec::new(), blocked: Vec::new(), stuck: false }
    }

    pub fn waiting(kind: OrchestrationKind, step: Stage, waits: Vec<String>) -> Proposal {
        Proposal { waits, ..Proposal::new(kind, step, Vec::new()) }
    }

    pub fn blocked(kind: OrchestrationKind, step: Stage, blocked: Vec<(Reason, String)>) -> Proposal {
        Proposal { blocked, stuck: true, ..Proposal::new(kind, step, Vec::new()) }
    }

    pub fn and_waits(mut self, waits: Vec<String>) -> Proposal {
        self.waits.extend(waits);
        self
    }
}

pub(crate) fn command(member: &Member, action: Action) -> PodCommand {
    PodCommand { pod: member.pod.name.clone(), pod_uid: member.pod.uid.clone(), action }
}

/// Whether this pod may be told this now, or was told the same a moment ago.
pub(crate) fn due(member: &Member, action: &Action, now: Timestamp) -> bool {
    if member.pod.is_busy() {
        return false;
    }
    let Some(answer) = &member.pod.answer else { return true };
    if !repeats(action, &answer.action) {
        return true;
    }
    let pause = match answer.outcome {
        Outcome::Done => limits::REPEAT_DONE,
        Outcome::Failed(_) => limits::REPEAT_FAILED,
        Outcome::Refused(_) => limits::REPEAT_REFUSED,
    };
    age(now, answer.at) >= pause
}

/// A Meet repeats an earlier one when it names nobody new; others when they are equal.
fn repeats(action: &Action, earlier: &Action) -> bool {
    match (action, earlier) {
        (Action::Meet(peers), Action::Meet(before)) => peers.iter().all(|peer| is_among(peer, before)),
        (Action::OpenGate(start, _), Action::OpenGate(before, _)) => start == before,
        _ => action == earlier,
    }
}

fn is_among(peer: &Peer, before: &[Peer]) -> bool {
    before.iter().any(|other| other.ip == peer.ip && other.node_id == peer.node_id)
}
