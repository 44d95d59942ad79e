use super::*;
use crate::observation::{Observation, PodSeen, Valkey, Wanted};
use jiff::Timestamp;
use std::time::Duration;

/// A pod whose nodes.conf says nothing any more.
fn damaged(has_data: bool) -> Observation {
    let boot = Boot {
        since: Timestamp::UNIX_EPOCH,
        reason: "nodes.conf is damaged".to_owned(),
        last_node_id: None,
        last_role: None,
        has_data,
        clean_stop: false,
        owned_slots: false,
        known_replicas: Vec::new(),
    };
    let pod = PodSeen { connected: true, valkey: Valkey::Waiting(boot), ..PodSeen::unheard("p-0".into(), "u".into()) };
    Observation { pods: vec![pod], recorded: Vec::new() }
}

fn told(seen: &Observation) -> (Vec<Action>, Vec<(Reason, String)>) {
    let wanted = Wanted { masters: 3, replicas_per_master: 1, persistent: true, node_timeout: Duration::from_secs(5) };
    let picture = Picture::new(&wanted, seen, None, Timestamp::UNIX_EPOCH);
    (harmless(&picture).into_iter().map(|command| command.action).collect(), blocked(&picture))
}

#[test]
fn a_node_with_a_damaged_identity_and_no_data_starts_afresh() {
    let (actions, blocked) = told(&damaged(false));
    assert!(matches!(actions.as_slice(), [Action::OpenGate(Start::Fresh, _)]), "{actions:?}");
    assert_eq!(blocked, []);
}

#[test]
fn a_node_with_a_damaged_identity_beside_its_data_waits_for_a_human_who_is_told_what_to_do() {
    let (actions, blocked) = told(&damaged(true));
    assert_eq!(actions, []);
    let [(Reason::DamagedNode, text)] = blocked.as_slice() else { panic!("{blocked:?}") };
    assert!(text.starts_with("p-0 does not start") && text.contains("empty volume"), "{text}");
}
