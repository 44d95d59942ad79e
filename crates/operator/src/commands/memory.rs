//! What one node answered last, beside what its heartbeats say. Pure data; a new process starts without it and asks again.

use super::wire;
use crate::line::SidecarFacts;
use k8s_openapi::jiff::Timestamp;
use link::contract::{Boot, ClusterView, Condition, Done, HeartbeatRequest, NodeState};
use planner::nodes::{Action, Answered, Outcome, Valkey};
use topology::{NodeId, NodeView};

/// What is remembered of one pod's node, by the pod's UID.
#[derive(Clone, Debug, Default)]
pub struct NodeMemory {
    /// Commands being carried out.
    pub under_way: Vec<Action>,
    /// The latest answer; a view or state that was told is none.
    pub answer: Option<Answered>,
    /// With the number of the connection it was read over.
    view: Option<(u64, NodeView)>,
    /// What the node said in an answer, as of when it was asked: what a heartbeat said meanwhile is newer.
    said: Option<(Timestamp, NodeState, Option<ClusterView>)>,
    last_id: Option<NodeId>,
    /// Since when there is no process, or it waits at the gate.
    absent_since: Option<Timestamp>,
}

impl NodeMemory {
    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Takes note of how a command ended. That a node could tell something again ends what was said of its silence.
    pub fn answered(&mut self, answered: Answered) {
        let could_tell = answered.action.is_reading() && answered.outcome == Outcome::Done;
        let silence = self.answer.as_ref().is_some_and(|before| before.action.is_reading());
        match could_tell {
            true if silence => self.answer = None,
            true => {}
            false => self.answer = Some(answered),
        }
    }

    /// Takes in what a fulfilled command brought along.
    pub fn learn(&mut self, done: &Done, connection: u64, asked: Timestamp) {
        let full = done.view.as_ref().and_then(|view| wire::view(view, asked));
        let summary = done.view.as_ref().and_then(|view| view.summary.clone());
        if let Some(state) = &done.node {
            let summary = summary.or_else(|| self.said.take().and_then(|(_, _, summary)| summary));
            self.said = Some((asked, state.clone(), summary));
        }
        if let Some(view) = full {
            self.view = Some((connection, view));
        }
    }

    pub fn view(&self, connection: u64) -> Option<NodeView> {
        self.view.as_ref().filter(|(read, _)| *read == connection).map(|(_, view)| view.clone())
    }

    /// What the sidecar says of its Valkey now.
    pub fn valkey(&mut self, sidecar: &SidecarFacts, now: Timestamp) -> Valkey {
        if !sidecar.connected {
            return Valkey::Unknown;
        }
        let reported = self.newest(sidecar, now);
        let absent = matches!(reported, Reported::Down | Reported::Waiting(_));
        let since = self.absent_since.filter(|_| absent).unwrap_or(sidecar.last_heartbeat);
        self.absent_since = absent.then_some(since);
        match reported {
            Reported::Unclear => Valkey::Unknown,
            Reported::Down => Valkey::Down { since, node_id: self.last_id.clone() },
            Reported::Waiting(boot) => Valkey::Waiting(wire::boot(&boot, since)),
            Reported::State(at, state, view) => match wire::facts(&state, view.as_ref(), at) {
                Some(facts) => {
                    self.last_id = Some(facts.node_id.clone());
                    Valkey::Answers(facts)
                }
                None => Valkey::Unknown,
            },
        }
    }

    /// When its Valkey was last known to answer, by the last words of a sidecar that is not connected any more.
    pub fn last_answer(&self, sidecar: &SidecarFacts, now: Timestamp) -> Option<Timestamp> {
        match self.newest(sidecar, now) {
            Reported::State(at, ..) => Some(at).filter(|at| *at <= now),
            Reported::Down | Reported::Waiting(_) => self.absent_since,
            Reported::Unclear => None,
        }
    }

    fn newest(&self, sidecar: &SidecarFacts, now: Timestamp) -> Reported {
        let said = self.said.clone().filter(|(asked, ..)| *asked > sidecar.last_heartbeat && *asked <= now);
        match (said, heard(&sidecar.beat, sidecar.last_heartbeat)) {
            (Some((at, state, view)), heard) if state.condition() != Condition::Down => {
                let older = if let Reported::State(_, _, view) = heard { view } else { None };
                Reported::State(at, Box::new(state), view.or(older))
            }
            (_, heard) => heard,
        }
    }
}

/// What a sidecar says of its Valkey, in the contract's terms.
enum Reported {
    Unclear,
    Down,
    Waiting(Boot),
    State(Timestamp, Box<NodeState>, Option<ClusterView>),
}

fn heard(beat: &HeartbeatRequest, at: Timestamp) -> Reported {
    if let Some(boot) = beat.boot.as_ref().filter(|boot| boot.waiting) {
        return Reported::Waiting(boot.clone());
    }
    match &beat.node {
        None => Reported::Unclear,
        Some(state) => match state.condition() {
            Condition::Down => Reported::Down,
            Condition::Starting | Condition::Hung => Reported::Unclear,
            _ => Reported::State(at, Box::new(state.clone()), beat.view.clone()),
        },
    }
}
