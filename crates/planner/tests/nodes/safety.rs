//! Every rule of the second opinion, broken once.

use jiff::Timestamp;
use planner::nodes::{
    Action, Boot, Decision, FailoverMode, Following, NodeFacts, NodeObservation, Peer, PodCommand, PodObservation,
    Start, Target, Valkey,
};
use planner::safety::{Violation, check_commands};
use std::time::Duration;
use topology::{Location, NodeId, NodeView, PodName, PodUid, Role, SlotSet, ViewSummary, ViewedNode};

fn line(id: &str, myself: bool, slots: &str) -> ViewedNode {
    ViewedNode {
        node_id: id.into(),
        ip: format!("ip-{id}"),
        hostname: None,
        role: Role::Primary,
        myself,
        failing: false,
        possibly_failing: false,
        handshake: false,
        link_up: true,
        primary: None,
        config_epoch: 1,
        slots: slots.parse().unwrap_or_default(),
    }
}

fn pod(number: u32, valkey: Valkey, view: Option<NodeView>) -> PodObservation {
    PodObservation {
        name: PodName::new(format!("p-{number}")),
        uid: PodUid::new(format!("uid-{number}")),
        ip: Some(format!("ip-{number}")),
        location: Location::default(),
        ready: true,
        terminating: false,
        connected: true,
        last_answer: None,
        valkey,
        view,
        under_way: Vec::new(),
        answer: None,
    }
}

fn facts(number: u32, role: Role, keys: u64, slots: &SlotSet) -> NodeFacts {
    let summary = ViewSummary { known_nodes: 2, slots_mine: slots.count(), ..ViewSummary::default() };
    NodeFacts {
        node_id: NodeId::new(number.to_string()),
        role,
        loading: false,
        replication_offset: 5,
        replication_id: Some("history".to_owned()),
        primary: None,
        following: Following::Untold,
        primary_link_up: false,
        keys,
        started_at: None,
        summary,
    }
}

/// A primary that knows the node "9" as the owner of slots 100-199.
fn primary(number: u32, keys: u64, slots: &str) -> PodObservation {
    let facts = facts(number, Role::Primary, keys, &slots.parse().unwrap_or_default());
    let nodes = vec![line(&number.to_string(), true, slots), line("9", false, "100-199")];
    let view = NodeView { read_at: Timestamp::UNIX_EPOCH, summary: facts.summary.clone(), nodes };
    pod(number, Valkey::Answers(facts), Some(view))
}

fn replica(number: u32, of: &str, offset: u64) -> PodObservation {
    let mut facts = facts(number, Role::Replica, 7, &SlotSet::default());
    (facts.primary, facts.replication_offset) = (Some(of.into()), offset);
    pod(number, Valkey::Answers(facts), None)
}

fn target() -> Target {
    Target { masters: 3, replicas_per_master: 1, persistent: true, node_timeout: Duration::from_secs(5) }
}

fn verdict(pods: Vec<PodObservation>, number: u32, action: Action) -> Result<(), Violation> {
    let command =
        PodCommand { pod: PodName::new(format!("p-{number}")), pod_uid: PodUid::new(format!("uid-{number}")), action };
    let decision = Decision { commands: vec![command], ..Decision::default() };
    check_commands(&decision.commands, &target(), &NodeObservation { pods, ..NodeObservation::default() })
}

fn rule(pods: Vec<PodObservation>, number: u32, action: Action) -> String {
    verdict(pods, number, action).err().map(|violation| violation.rule).unwrap_or_default()
}

fn slots(text: &str) -> Action {
    Action::AddSlots(text.parse().unwrap_or_default())
}

fn down(number: u32, id: &str) -> PodObservation {
    pod(number, Valkey::Down { since: Timestamp::UNIX_EPOCH, node_id: Some(id.into()) }, None)
}

/// The primary "9" at the boot gate.
fn waiting(has_data: bool) -> PodObservation {
    let boot = Boot {
        since: Timestamp::UNIX_EPOCH,
        reason: String::new(),
        last_node_id: Some("9".into()),
        last_role: Some(Role::Primary),
        has_data,
        clean_stop: false,
        owned_slots: true,
        known_replicas: Vec::new(),
    };
    pod(9, Valkey::Waiting(boot), None)
}

#[test]
fn nobody_is_told_anything_who_is_not_on_the_line_or_busy() {
    let silent = PodObservation { connected: false, ..primary(1, 0, "") };
    let busy = PodObservation { under_way: vec![Action::ReadView], ..primary(1, 0, "") };
    assert!(rule(vec![silent], 1, Action::Probe).contains("not on the line"));
    assert!(rule(vec![busy], 1, Action::Probe).contains("another command"));
    assert!(rule(vec![], 1, Action::Probe).contains("no such pod"));
}

#[test]
fn only_a_node_that_told_its_id_is_met_and_only_where_it_is() {
    let meet =
        |id: &str, ip: &str| Action::Meet(vec![Peer { pod: "p-2".into(), node_id: id.into(), ip: ip.to_owned() }]);
    let pods = || vec![primary(1, 1, "0-9"), primary(2, 1, "10-19")];
    assert_eq!(verdict(pods(), 1, meet("2", "ip-2")), Ok(()));
    assert!(rule(pods(), 1, meet("2", "ip-7")).contains("not at this address"));
    assert!(rule(pods(), 1, meet("8", "ip-2")).contains("has not told"));
    let mut twice = pods();
    twice.push(PodObservation { uid: "uid-3".into(), ..primary(2, 1, "10-19") });
    assert!(rule(twice, 1, meet("2", "ip-2")).contains("two pods"));
}

#[test]
fn clusters_that_share_no_acquaintance_are_not_introduced() {
    let mut stranger = primary(2, 5, "10-19");
    if let Some(view) = stranger.view.as_mut() {
        view.nodes[1].node_id = "77".into();
    }
    let meet = Action::Meet(vec![Peer { pod: "p-2".into(), node_id: "2".into(), ip: "ip-2".to_owned() }]);
    assert!(rule(vec![primary(1, 5, "0-9"), stranger], 1, meet).contains("different clusters"));
}

#[test]
fn groups_of_our_own_pods_are_introduced_while_a_cluster_forms() {
    let knows = |number: u32, other: &str, slots: &str| {
        let mut pod = primary(number, 0, slots);
        if let Some(view) = pod.view.as_mut() {
            view.nodes[1] = line(other, false, "");
        }
        pod
    };
    let meet = Action::Meet(vec![Peer { pod: "p-3".into(), node_id: "3".into(), ip: "ip-3".to_owned() }]);
    let pairs = |of_three: &str| {
        vec![knows(1, "2", "0-9"), knows(2, "1", "10-19"), knows(3, "4", of_three), knows(4, "3", "30-39")]
    };
    assert_eq!(verdict(pairs("20-29"), 1, meet.clone()), Ok(()));
    assert!(rule(pairs("5-29"), 1, meet.clone()).contains("different clusters"), "a slot has two owners");
    let mut with_a_stranger = pairs("20-29");
    with_a_stranger[2] = knows(3, "77", "20-29");
    assert!(rule(with_a_stranger, 1, meet).contains("different clusters"));
}

#[test]
fn slots_are_not_given_away_while_an_owner_may_live() {
    let unknown = pod(3, Valkey::Unknown, None);
    assert!(rule(vec![primary(1, 0, ""), unknown], 1, slots("0-9")).contains("not every node is heard"));
    assert!(rule(vec![primary(1, 0, ""), primary(2, 0, "0-9")], 1, slots("5-6")).contains("says they are its own"));
    assert!(rule(vec![primary(1, 0, ""), replica(3, "9", 4)], 1, slots("100-199")).contains("replica holds data"));
    assert!(rule(vec![primary(1, 0, ""), primary(9, 0, "")], 1, slots("100-199")).contains("in another's view"));
    assert_eq!(verdict(vec![primary(1, 0, "")], 1, slots("0-9")), Ok(()));
}

#[test]
fn a_node_with_slots_or_the_only_copy_of_data_is_not_made_a_replica() {
    let pods = |first: PodObservation| vec![first, primary(2, 0, "0-9")];
    let follow = || Action::Replicate("2".into());
    assert!(rule(pods(primary(1, 0, "20-29")), 1, follow()).contains("owns slots"));
    assert!(rule(pods(primary(1, 3, "")), 1, follow()).contains("only copy"));
    assert!(rule(pods(replica(1, "9", 4)), 1, follow()).contains("only copy"));
    assert_eq!(verdict(pods(primary(1, 0, "")), 1, follow()), Ok(()));
    assert!(rule(vec![primary(1, 0, ""), primary(2, 0, "")], 1, follow()).contains("no primary with slots"));
}

#[test]
fn a_replica_takes_over_only_from_the_dead_and_only_the_best() {
    let force = || Action::Failover(FailoverMode::Force);
    assert!(rule(vec![primary(9, 1, "100-199"), replica(1, "9", 4)], 1, force()).contains("its primary answers"));
    assert!(rule(vec![replica(1, "9", 4)], 1, force()).contains("dead"));
    assert!(rule(vec![down(9, "9"), replica(1, "9", 4), replica(2, "9", 5)], 1, force()).contains("more of the data"));
    assert!(
        rule(vec![down(9, "9"), replica(1, "9", 4)], 1, Action::Failover(FailoverMode::Takeover)).contains("human")
    );
    assert_eq!(verdict(vec![down(9, "9"), replica(1, "9", 4)], 1, force()), Ok(()));
    let lost = |link: i64| {
        let mut lost = replica(1, "9", 4);
        if let Valkey::Answers(facts) = &mut lost.valkey {
            facts.following = Following::Until(Timestamp::from_second(link).unwrap_or_default());
        }
        lost
    };
    assert_eq!(verdict(vec![down(9, "9"), lost(-5)], 1, force()), Ok(()), "it died at zero");
    assert!(rule(vec![down(9, "9"), lost(-3_600)], 1, force()).contains("may come back with more"));
    let mut restarted = replica(1, "9", 4);
    if let Valkey::Answers(facts) = &mut restarted.valkey {
        facts.following = Following::Never;
    }
    assert!(rule(vec![waiting(true), restarted.clone()], 1, force()).contains("waits with its data"));
    assert_eq!(verdict(vec![waiting(false), restarted], 1, force()), Ok(()));
    assert_eq!(verdict(vec![waiting(true), replica(1, "9", 4)], 1, force()), Ok(()));
}

#[test]
fn nothing_that_lives_owns_or_feeds_is_forgotten() {
    let forget = |id: &str| Action::Forget(vec![id.into()]);
    assert!(rule(vec![primary(1, 0, ""), primary(2, 0, "")], 1, forget("2")).contains("answers"));
    assert!(rule(vec![primary(1, 0, "")], 1, forget("9")).contains("owns slots"));
    assert!(rule(vec![primary(1, 0, ""), replica(2, "5", 4)], 1, forget("5")).contains("has replicas"));
    assert_eq!(verdict(vec![primary(1, 0, "")], 1, forget("5")), Ok(()));
    let knows_7 = |suspects: bool| {
        let mut pod = primary(1, 0, "");
        let line = ViewedNode { possibly_failing: suspects, ..line("7", false, "") };
        pod.view.iter_mut().for_each(|view| view.nodes.push(line.clone()));
        pod
    };
    assert!(rule(vec![knows_7(false)], 1, forget("7")).contains("answers somewhere"));
    assert_eq!(verdict(vec![knows_7(true)], 1, forget("7")), Ok(()), "a link alone says nothing");
}

#[test]
fn an_empty_primary_is_not_let_start_over_a_copy_of_its_data() {
    let open = |start| Action::OpenGate(start, "test".to_owned());
    assert!(rule(vec![waiting(false), replica(1, "9", 4)], 9, open(Start::AsIs)).contains("has a copy"));
    let silent = PodObservation { connected: false, ..replica(1, "9", 4) };
    assert!(rule(vec![waiting(false), silent], 9, open(Start::AsIs)).contains("may have a copy"));
    assert!(rule(vec![waiting(true)], 9, open(Start::Fresh)).contains("has data"));
    assert_eq!(verdict(vec![waiting(true), replica(1, "9", 4)], 9, open(Start::AsIs)), Ok(()));
}
