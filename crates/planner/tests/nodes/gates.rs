//! A primary that waits with nothing is let through only when nobody has what it had, wherever that is.

use crate::cluster::{Cluster, ago, finding, id};
use api::conditions::Reason;
use planner::nodes::{
    Action, Answered, Boot, Decision, FindingKind, Outcome, PodCommand, PodObservation, Start, Valkey,
};
use planner::safety::check_commands;
use topology::Role;

/// The first primary came back with nothing, and pods from 3 on are not wanted any more.
fn empty_primary(recorded: bool) -> Cluster {
    let mut cluster = Cluster::whole();
    cluster.target.replicas_per_master = 0;
    if !recorded {
        cluster.seen.recorded.clear();
    }
    let boot = Boot {
        since: ago(40),
        reason: String::new(),
        last_node_id: Some(id(0)),
        last_role: Some(Role::Primary),
        has_data: false,
        clean_stop: false,
        owned_slots: true,
        known_replicas: Vec::new(),
        better_copy: None,
        journal: false,
    };
    cluster.change(0, |pod| (pod.valkey, pod.view) = (Valkey::Waiting(boot.clone()), None));
    cluster
}

fn with_replica(mut cluster: Cluster, change: impl Fn(&mut PodObservation)) -> Cluster {
    cluster.change(3, change);
    cluster
}

/// It says that it runs, and did not answer when it was asked what it sees.
fn mute(pod: &mut PodObservation) {
    pod.answer = Some(Answered {
        at: ago(1),
        orchestration: "look".to_owned(),
        step_version: 0,
        action: Action::ReadView,
        outcome: Outcome::Failed("no answer".to_owned()),
        changed: false,
    });
}

fn silent(pod: &mut PodObservation) {
    (pod.connected, pod.valkey, pod.view) = (false, Valkey::Unknown, None);
}

/// Its process is gone, and its sidecar is new.
fn nameless(pod: &mut PodObservation) {
    (pod.valkey, pod.view) = (Valkey::Down { since: ago(10), node_id: None }, None);
}

fn opens(decision: &Decision) -> bool {
    decision.commands.iter().any(|command| matches!(command.action, Action::OpenGate(..)))
}

fn may_open(cluster: &Cluster) -> bool {
    let action = Action::OpenGate(Start::AsIs, String::new());
    let command = PodCommand { pod: "p-0".into(), pod_uid: "uid-0".into(), action };
    check_commands(&[command], &cluster.target, &cluster.seen).is_ok()
}

#[test]
fn a_copy_counts_although_its_pod_is_not_wanted_any_more() {
    for recorded in [true, false] {
        for change in [mute, silent, nameless] {
            let mut cluster = with_replica(empty_primary(recorded), change);
            let decision = cluster.after(40);
            assert!(!opens(&decision) && !may_open(&cluster), "{recorded}: {:?}", decision.plan);
            let (_, reason, message) = finding(&decision, FindingKind::Degraded);
            assert_ne!(reason, Some(Reason::UnknownNode), "it is only not heard: {message}");
        }
    }
}

#[test]
fn a_copy_on_the_volume_of_a_pod_that_is_away_counts() {
    for persistent in [true, false] {
        let mut cluster = empty_primary(true);
        cluster.target.persistent = persistent;
        cluster.seen.pods.remove(3);
        let decision = cluster.after(40);
        assert_eq!(opens(&decision), !persistent, "without a volume its data ended with it: {:?}", decision.plan);
        assert_eq!(may_open(&cluster), !persistent);
    }
}
