use super::*;
use crate::nodes::{NodeObservation, PodObservation, Target, Valkey};
use jiff::Timestamp;
use std::time::Duration;

/// A pod whose nodes.conf says nothing any more.
fn damaged(has_data: bool) -> NodeObservation {
    let boot = Boot {
        since: Timestamp::UNIX_EPOCH,
        reason: "nodes.conf is damaged".to_owned(),
        last_node_id: None,
        last_role: None,
        has_data,
        clean_stop: false,
        owned_slots: false,
        known_replicas: Vec::new(),
        better_copy: None,
        journal: false,
    };
    let pod = PodObservation {
        connected: true,
        valkey: Valkey::Waiting(boot),
        ..PodObservation::unheard("p-0".into(), "u".into())
    };
    NodeObservation { pods: vec![pod], ..NodeObservation::default() }
}

fn decided(seen: &NodeObservation) -> (Vec<Action>, Vec<(Reason, String)>) {
    let target = Target {
        cluster: "p".to_owned(),
        masters: 3,
        replicas_per_master: 1,
        persistent: true,
        node_timeout: Duration::from_secs(5),
        min_replicas_to_write: 0,
    };
    let model = ClusterModel::new(&target, seen, Timestamp::UNIX_EPOCH);
    (harmless(&model).into_iter().map(|command| command.action).collect(), blocked(&model))
}

#[test]
fn a_node_with_a_damaged_identity_and_no_data_starts_afresh() {
    let (actions, blocked) = decided(&damaged(false));
    assert!(matches!(actions.as_slice(), [Action::OpenGate(Start::Fresh, _)]), "{actions:?}");
    assert_eq!(blocked, []);
}

#[test]
fn a_node_with_a_damaged_identity_beside_its_data_waits_for_a_human_who_is_told_what_to_do() {
    let (actions, blocked) = decided(&damaged(true));
    assert_eq!(actions, []);
    let [(Reason::DamagedNode, text)] = blocked.as_slice() else { panic!("{blocked:?}") };
    assert!(text.starts_with("p-0 does not start") && text.contains("empty volume"), "{text}");
}
