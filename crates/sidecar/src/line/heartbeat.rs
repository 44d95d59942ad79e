//! A heartbeat's content from what was seen. Pure; the node asks and puts it together.

use crate::{
    health::{condition::Kind, disk::Disk},
    state::State,
};
use link::contract::{self, Condition, NodeState, Revisions, TriedParameter, Volume};
use topology::Position;

/// What the contract has no word for stays unspecified: Valkey answers and does not serve.
pub fn condition(kind: Kind) -> Condition {
    match kind {
        // Out of memory or without its cluster a node still obeys; the view tells the rest.
        Kind::Ready | Kind::OutOfMemory | Kind::ClusterDown | Kind::ApplyingSettings => Condition::Ready,
        Kind::Starting => Condition::Starting,
        Kind::Loading => Condition::Loading,
        Kind::ReplicaNotInSync => Condition::NotInSync,
        Kind::Hung | Kind::Unreachable => Condition::Hung,
        Kind::Dead | Kind::WaitingAtGate => Condition::Down,
        _ => Condition::Unspecified,
    }
}

/// Of a server that says nothing only this is known.
pub fn silent(condition: Condition) -> NodeState {
    NodeState { condition: condition.into(), ..NodeState::default() }
}

pub fn revisions(state: &State) -> Revisions {
    Revisions {
        settings: state.settings_revision.clone().unwrap_or_default(),
        restart_required: state.pending_restart.iter().map(|pending| pending.parameter.clone()).collect(),
        refused: refused(state),
        trusted_roots: trusted_roots(state),
        tried: tried(state),
        ..Revisions::default()
    }
}

pub fn tried(state: &State) -> Vec<TriedParameter> {
    let tried = state.tried.iter().map(|(name, refusal)| (name.clone(), refusal.clone()));
    tried.map(|(name, refusal)| TriedParameter { name, refusal }).collect()
}

pub fn trusted_roots(state: &State) -> Vec<String> {
    state.line.certificate.iter().flat_map(|certificate| certificate.trusted_roots.clone()).collect()
}

/// What was refused of the settings, in words.
pub fn refused(state: &State) -> Vec<String> {
    let parameters =
        state.refused.iter().map(|(name, refused)| format!("{name} {}: {}", refused.value, refused.reason));
    state.settings_problem.iter().cloned().chain(parameters).collect()
}

pub fn position(position: Position) -> contract::Position {
    contract::Position { replication_id: position.replication_id, offset: position.offset }
}

pub fn volume(disk: Disk) -> Volume {
    Volume { size_bytes: disk.total, available_bytes: disk.available }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{plan::Pending, record::Refused};

    #[test]
    fn revisions_name_what_waits_and_what_was_refused() {
        let mut state = State { settings_revision: Some("r1".into()), ..State::default() };
        let pending = Pending { parameter: "tcp-backlog".into(), running: "511".into(), wanted: "100".into() };
        state.pending_restart.push(pending);
        state.refused.insert("hz".into(), Refused { value: "x".into(), reason: "not a number".into() });
        let told = revisions(&state);
        assert_eq!((told.settings.as_str(), told.restart_required), ("r1", vec!["tcp-backlog".to_owned()]));
        assert_eq!(told.refused, ["hz x: not a number"]);
        state.tried.insert("search.timeout".into(), "no such parameter".into());
        let expected = TriedParameter { name: "search.timeout".into(), refusal: "no such parameter".into() };
        assert_eq!(revisions(&state).tried, [expected]);
    }

    #[test]
    fn a_dead_and_a_hung_server_are_told_apart_and_a_full_disk_is_neither() {
        assert_eq!([Kind::Dead, Kind::Hung].map(condition), [Condition::Down, Condition::Hung]);
        assert_eq!(condition(Kind::DiskFull), Condition::Unspecified);
    }
}
