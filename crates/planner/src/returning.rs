//! Whether a leader that has just begun has heard everybody yet. Pure; a part of `plan`.

use crate::nodes::{PodObservation, Valkey};
use crate::observation::Observation;

/// A leader that has just begun has not heard everybody, nor read what each of them sees: what was true before stands until it has.
pub fn are_returning(observation: &Observation) -> bool {
    let unread = |seen: &PodObservation| matches!(seen.valkey, Valkey::Answers(_)) && seen.view.is_none();
    let unheard = |seen: &PodObservation| !seen.terminating && (!seen.connected || unread(seen));
    observation.line.returning && observation.nodes.as_ref().is_some_and(|nodes| nodes.pods.iter().any(unheard))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{NodeFacts, NodeObservation};
    use crate::sidecars::LineFacts;
    use k8s_openapi::jiff::Timestamp;
    use topology::{NodeView, ViewSummary};

    fn answering(view: Option<NodeView>) -> PodObservation {
        let valkey = Valkey::Answers(NodeFacts::fresh("a".into()));
        PodObservation { valkey, view, connected: true, ..silent() }
    }

    fn silent() -> PodObservation {
        PodObservation::unheard("poc-0".into(), "uid".into())
    }

    fn read() -> Option<NodeView> {
        Some(NodeView { read_at: Timestamp::UNIX_EPOCH, summary: ViewSummary::default(), nodes: Vec::new() })
    }

    fn returning(pods: Vec<PodObservation>, new_leader: bool) -> bool {
        let line = LineFacts { returning: new_leader, ..LineFacts::default() };
        are_returning(&Observation {
            line,
            nodes: Some(NodeObservation { pods, ..NodeObservation::default() }),
            ..Default::default()
        })
    }

    #[test]
    fn a_new_leader_knows_the_nodes_once_it_has_heard_and_read_every_one() {
        assert!(returning(vec![answering(read()), silent()], true));
        assert!(returning(vec![answering(read()), answering(None)], true), "heard, and what it sees is not read yet");
        assert!(!returning(vec![answering(read()), answering(read())], true));
        assert!(
            !returning(vec![answering(None), silent()], false),
            "it has led for a while: whoever is silent is missed"
        );
    }

    #[test]
    fn a_node_that_is_down_or_going_is_not_waited_for() {
        let down = Valkey::Down { since: Timestamp::UNIX_EPOCH, node_id: None };
        assert!(!returning(vec![PodObservation { connected: true, valkey: down, ..silent() }], true));
        assert!(!returning(vec![PodObservation { terminating: true, ..silent() }], true));
    }
}
