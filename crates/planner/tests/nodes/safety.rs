//! Every rule of the second opinion, broken once.

use jiff::Timestamp;
use planner::nodes::{
    Action, Boot, Decision, FailoverMode, Following, NodeFacts, NodeObservation, NodeState, Peer, PodCommand,
    PodObservation, Shard, ShardNode, Start, Target, Valkey,
};
use planner::safety::{Violation, check_commands};
use std::time::Duration;
use topology::{
    Location, NodeId, NodeView, PodName, PodUid, Position, Role, SlotMove, SlotSet, ViewSummary, ViewedNode,
};

pub(crate) fn line(id: &str, myself: bool, slots: &str) -> ViewedNode {
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
        moves: Vec::new(),
    }
}

fn pod(number: u32, valkey: Valkey, view: Option<NodeView>) -> PodObservation {
    PodObservation {
        name: PodName::new(format!("p-{number}")),
        uid: PodUid::new(format!("uid-{number}")),
        ip: Some(format!("ip-{number}")),
        location: Location::default(),
        zone_awaited: false,
        ready: true,
        terminating: false,
        connected: true,
        last_answer: None,
        valkey,
        last_position: None,
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
        serving: true,
        replication_offset: 5,
        replication_id: Some("history".to_owned()),
        primary: None,
        following: Following::Unknown,
        primary_link_up: false,
        keys,
        started_at: None,
        summary,
    }
}

/// A primary that knows the node "9" as the owner of slots 100-199.
pub(crate) fn primary(number: u32, keys: u64, slots: &str) -> PodObservation {
    let facts = facts(number, Role::Primary, keys, &slots.parse().unwrap_or_default());
    let nodes = vec![line(&number.to_string(), true, slots), line("9", false, "100-199")];
    let view = NodeView { read_at: Timestamp::UNIX_EPOCH, summary: facts.summary.clone(), nodes };
    pod(number, Valkey::Answers(facts), Some(view))
}

pub(crate) fn replica(number: u32, of: &str, offset: u64) -> PodObservation {
    let mut facts = facts(number, Role::Replica, 7, &SlotSet::default());
    (facts.primary, facts.replication_offset) = (Some(of.into()), offset);
    pod(number, Valkey::Answers(facts), None)
}

fn target() -> Target {
    Target {
        cluster: "p".to_owned(),
        masters: 3,
        replicas_per_master: 1,
        persistent: true,
        node_timeout: Duration::from_secs(5),
        min_replicas_to_write: 0,
    }
}

pub(crate) fn verdict(pods: Vec<PodObservation>, number: u32, action: Action) -> Result<(), Violation> {
    let command =
        PodCommand { pod: PodName::new(format!("p-{number}")), pod_uid: PodUid::new(format!("uid-{number}")), action };
    let decision = Decision { commands: vec![command], ..Decision::default() };
    check_commands(&decision.commands, &target(), &NodeObservation { pods, ..NodeObservation::default() })
}

pub(crate) fn rule(pods: Vec<PodObservation>, number: u32, action: Action) -> String {
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
        better_copy: None,
        journal: false,
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
fn a_pod_that_is_about_to_end_is_given_nothing() {
    let ending = |pod| PodObservation { terminating: true, ..pod };
    assert!(rule(vec![ending(primary(1, 0, ""))], 1, slots("0-9")).contains("about to end"));
    let pods = vec![ending(primary(1, 0, "")), primary(2, 1, "10-19")];
    assert!(rule(pods, 1, Action::Replicate("2".into())).contains("about to end"));
}

#[test]
fn nobody_disturbs_an_election() {
    let electing =
        || PodObservation { under_way: vec![Action::Failover(FailoverMode::Force, None)], ..replica(2, "9", 5) };
    let pods = || vec![primary(1, 1, "0-9"), electing(), replica(3, "9", 5), down(9, "9"), primary(4, 0, "")];
    let said = |number, action| rule(pods(), number, action).contains("election");
    assert!(said(3, Action::Failover(FailoverMode::Force, None)) && said(3, Action::Replicate("1".into())));
    assert!(said(1, Action::Forget(vec!["9".into()])) && said(4, slots("150-160")));
    let gate = |pods| rule(pods, 9, Action::OpenGate(Start::AsIs, String::new()));
    assert!(gate(vec![electing(), waiting(true)]).contains("election"), "its primary would serve beside its successor");
    assert_eq!(gate(vec![replica(2, "9", 5), waiting(true)]), "", "nobody is being elected");
    assert!(!said(4, slots("300-310")) && !said(1, Action::ReadView) && !said(4, Action::Replicate("1".into())));
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
fn slots_are_given_away_without_a_pod_on_record_only_when_nothing_of_it_is_left() {
    let on_record = |state| {
        let node = ShardNode { pod: "p-5".into(), pod_uid: None, node_id: "5".into(), role: Role::Primary, state };
        Shard { id: "shard-0".into(), slots: "0-9".parse().unwrap(), replication_id: None, nodes: vec![node] }
    };
    let among = |pods: Vec<PodObservation>, state, persistent| {
        let command = PodCommand { pod: "p-1".into(), pod_uid: "uid-1".into(), action: slots("10-19") };
        let seen = NodeObservation { pods, recorded: vec![on_record(state)], ..NodeObservation::default() };
        check_commands(&[command], &Target { persistent, ..target() }, &seen).is_ok()
    };
    let states = [NodeState::Lost, NodeState::Unknown, NodeState::Down, NodeState::Online];
    for state in states {
        assert!(among(vec![primary(1, 0, "")], state, false), "its pod is gone, and had no volume");
        assert!(!among(vec![primary(1, 0, "")], state, true), "its volume may be there");
        assert!(!among(vec![primary(1, 0, ""), pod(5, Valkey::Unknown, None)], state, false), "its pod is there");
        let mut hears_it = primary(1, 0, "");
        hears_it.view.as_mut().unwrap().nodes.push(line("5", false, ""));
        assert!(!among(vec![hears_it], state, false), "it outlived its pod");
    }
}

#[test]
fn a_node_with_slots_or_the_only_copy_of_data_is_not_made_a_replica() {
    let pods = |first: PodObservation| vec![first, primary(2, 0, "0-9")];
    let follow = || Action::Replicate("2".into());
    assert!(rule(pods(primary(1, 0, "20-29")), 1, follow()).contains("owns slots"));
    assert!(rule(pods(primary(1, 3, "")), 1, follow()).contains("only copy"));
    assert!(rule(pods(replica(1, "9", 4)), 1, follow()).contains("only copy"));
    let mut giving = primary(2, 0, "0-9");
    let own = giving.view.iter_mut().flat_map(|view| &mut view.nodes).filter(|node| node.myself);
    own.for_each(|node| node.moves = vec![SlotMove { slot: 5, other: "1".into(), importing: false }]);
    assert!(rule(vec![primary(1, 0, ""), giving], 1, follow()).contains("half moved to it"));
    assert_eq!(verdict(pods(primary(1, 0, "")), 1, follow()), Ok(()));
    assert_eq!(verdict(vec![primary(1, 0, ""), primary(2, 0, "")], 1, follow()), Ok(()), "a new shard");
}

#[test]
fn a_replica_takes_over_only_from_the_dead_and_only_the_best() {
    let force = || Action::Failover(FailoverMode::Force, None);
    assert!(rule(vec![primary(9, 1, "100-199"), replica(1, "9", 4)], 1, force()).contains("its primary answers"));
    assert!(rule(vec![replica(1, "9", 4)], 1, force()).contains("dead"));
    assert!(rule(vec![down(9, "9"), replica(1, "9", 4), replica(2, "9", 5)], 1, force()).contains("more of the data"));
    assert!(
        rule(vec![down(9, "9"), replica(1, "9", 4)], 1, Action::Failover(FailoverMode::Takeover, None))
            .contains("human")
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
    assert_eq!(verdict(vec![waiting(true), lost(-5)], 1, force()), Ok(()), "it was seen to be down since zero");
    assert!(rule(vec![waiting(true), lost(-3_600)], 1, force()).contains("may come back with more"));
    let mut outdone = waiting(true);
    if let Valkey::Waiting(boot) = &mut outdone.valkey {
        boot.better_copy = Some("1".into());
    }
    assert_eq!(verdict(vec![outdone, lost(-3_600)], 1, force()), Ok(()), "its snapshot is older still");
    let mut restarted = replica(1, "9", 4);
    if let Valkey::Answers(facts) = &mut restarted.valkey {
        facts.following = Following::Never;
    }
    assert!(rule(vec![waiting(true), restarted.clone()], 1, force()).contains("waits with its data"));
    assert_eq!(verdict(vec![waiting(false), restarted], 1, force()), Ok(()));
    assert_eq!(verdict(vec![waiting(true), replica(1, "9", 4)], 1, force()), Ok(()));
}

/// The node "9" and its replica "3", as recorded.
fn with_a_replica(number: u32) -> Shard {
    let mut shard = shard(number);
    let replica = ShardNode {
        pod: "p-3".into(),
        pod_uid: Some("uid-3".into()),
        node_id: "3".into(),
        role: Role::Replica,
        state: NodeState::Online,
    };
    shard.nodes.push(replica);
    shard
}

#[test]
fn a_snapshot_is_not_let_through_while_a_replica_on_record_may_have_more_and_is_not_heard() {
    let open = |pods: Vec<PodObservation>, persistent: bool| {
        let action = Action::OpenGate(Start::AsIs, String::new());
        let command = PodCommand { pod: "p-9".into(), pod_uid: "uid-9".into(), action };
        let seen = NodeObservation { pods, recorded: vec![with_a_replica(9)], ..NodeObservation::default() };
        check_commands(&[command], &Target { persistent, ..target() }, &seen).is_ok()
    };
    let silent = PodObservation { connected: false, ..replica(3, "9", 5) };
    let next = PodObservation { uid: "uid-of-the-next".into(), ..silent.clone() };
    let mut journal = waiting(true);
    if let Valkey::Waiting(boot) = &mut journal.valkey {
        boot.journal = true;
    }
    for persistent in [true, false] {
        assert!(!open(vec![waiting(true), silent.clone()], persistent));
        assert!(open(vec![journal.clone(), silent.clone()], persistent));
        assert!(open(vec![waiting(true), replica(3, "9", 5)], persistent), "what it has its sidecar is asked");
        assert_eq!(open(vec![waiting(true), next.clone()], persistent), !persistent);
        assert_eq!(open(vec![waiting(true)], persistent), !persistent);
    }
}

/// The record is of before the hand-over, or there is none.
#[test]
fn a_snapshot_is_not_let_through_on_an_old_record_or_none() {
    let mut swapped = with_a_replica(9);
    for node in &mut swapped.nodes {
        node.role = if node.role == Role::Primary { Role::Replica } else { Role::Primary };
    }
    let mut waiting = waiting(true);
    if let Valkey::Waiting(boot) = &mut waiting.valkey {
        boot.known_replicas = vec!["3".into()];
    }
    for recorded in [vec![swapped], Vec::new()] {
        let open = |other: PodObservation| {
            let action = Action::OpenGate(Start::AsIs, String::new());
            let command = PodCommand { pod: "p-9".into(), pod_uid: "uid-9".into(), action };
            let pods = vec![waiting.clone(), other];
            let seen = NodeObservation { pods, recorded: recorded.clone(), ..NodeObservation::default() };
            check_commands(&[command], &target(), &seen).is_ok()
        };
        assert!(!open(PodObservation { connected: false, ..replica(3, "9", 5) }), "{recorded:?}");
        assert!(open(replica(3, "9", 5)), "{recorded:?}");
    }
}

/// A primary that knows three owners, one of which is "9", and what it says of that one.
fn witness(number: u32, failing: bool, link_up: bool) -> PodObservation {
    let mut pod = primary(number, 1, &format!("{number}-{number}"));
    for view in pod.view.iter_mut() {
        let other = if number == 1 { 2 } else { 1 };
        view.nodes.push(line(&other.to_string(), false, &format!("{other}-{other}")));
        let of_nine = view.nodes.iter_mut().filter(|node| node.node_id == "9".into());
        of_nine.for_each(|node| (node.failing, node.link_up) = (failing, link_up));
    }
    pod
}

#[test]
fn only_most_of_all_owners_together_can_call_a_primary_failed() {
    let said = |pods: Vec<PodObservation>| {
        let pods = pods.into_iter().chain([replica(5, "9", 4)]).collect();
        verdict(pods, 5, Action::Failover(FailoverMode::Force, None)).map_err(|violation| violation.rule)
    };
    let dead = |rule: Result<(), String>| rule.is_err_and(|rule| rule.contains("is dead"));
    assert!(dead(said(vec![witness(1, false, false), witness(2, false, false)])), "a missing link is no failure");
    assert!(dead(said(vec![witness(1, true, false)])), "one of three; those that are not heard count too");
    assert_eq!(said(vec![witness(1, true, false), witness(2, true, false)]), Ok(()));
}

fn shard(number: u32) -> Shard {
    let node = ShardNode {
        pod: PodName::new(format!("p-{number}")),
        pod_uid: Some(PodUid::new(format!("uid-{number}"))),
        node_id: NodeId::new(number.to_string()),
        role: Role::Primary,
        state: NodeState::Down,
    };
    Shard { id: "shard".into(), slots: "100-199".parse().unwrap_or_default(), replication_id: None, nodes: vec![node] }
}

#[test]
fn without_a_volume_an_old_copy_takes_over_only_when_the_pod_is_gone_that_had_more() {
    let mut old = replica(1, "9", 4);
    if let Valkey::Answers(facts) = &mut old.valkey {
        facts.following = Following::Until(Timestamp::from_second(-3_600).unwrap_or_default());
    }
    let command =
        PodCommand { pod: "p-1".into(), pod_uid: "uid-1".into(), action: Action::Failover(FailoverMode::Force, None) };
    let said = |dead: PodObservation| {
        let seen =
            NodeObservation { pods: vec![dead, old.clone()], recorded: vec![shard(9)], ..NodeObservation::default() };
        let target = Target { persistent: false, ..target() };
        check_commands(std::slice::from_ref(&command), &target, &seen).map_err(|violation| violation.rule)
    };
    assert!(said(down(9, "9")).is_err_and(|rule| rule.contains("may come back with more")));
    let unnamed = pod(9, Valkey::Down { since: Timestamp::UNIX_EPOCH, node_id: None }, None);
    assert!(said(unnamed.clone()).is_err_and(|rule| rule.contains("may come back with more")));
    assert_eq!(said(PodObservation { uid: "uid-of-the-next".into(), ..unnamed }), Ok(()));
}

#[test]
fn a_replica_is_told_how_far_its_primary_was_seen_and_has_that_much() {
    let last = Position { replication_id: "history".to_owned(), offset: 6 };
    let dead = |pod: PodObservation| PodObservation { last_position: Some(last.clone()), ..pod };
    let with = |offset: u64, following: Following| {
        let mut pod = replica(1, "9", offset);
        if let Valkey::Answers(facts) = &mut pod.valkey {
            facts.following = following;
        }
        pod
    };
    let told = || Action::Failover(FailoverMode::Force, Some(last.clone()));
    let lost = Following::Until(Timestamp::from_second(-5).unwrap_or_default());
    for primary in [down(9, "9"), waiting(true)].map(dead) {
        let said = |replica: PodObservation, action: Action| rule(vec![primary.clone(), replica], 1, action);
        assert!(said(with(5, lost), told()).contains("seen to have more"));
        let untold = Action::Failover(FailoverMode::Force, None);
        assert!(said(with(6, lost), untold).contains("not told"));
        assert_eq!([said(with(6, lost), told()), said(with(5, Following::Now), told())], ["", ""]);
    }
    let empty = vec![dead(waiting(false)), with(5, lost)];
    assert_eq!(verdict(empty, 1, Action::Failover(FailoverMode::Force, None)), Ok(()), "it came back with nothing");
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

#[test]
fn a_replica_of_a_primary_to_which_a_slot_is_half_moved_keeps_its_keys() {
    let follow = |pods| rule(pods, 3, Action::Replicate("2".into()));
    let pods = |keys| vec![primary(1, keys, ""), primary(2, 9, "10-19"), replica(3, "1", 5)];
    assert!(follow(pods(3)).contains("the only copy"), "its primary has keys");
    assert_eq!(follow(pods(0)), "");
    let mut open = pods(0);
    open.remove(0);
    let moves = vec![SlotMove { slot: 10, other: "1".into(), importing: false }];
    let views = open.iter_mut().filter_map(|pod| pod.view.as_mut()).flat_map(|view| &mut view.nodes);
    views.filter(|line| line.myself).for_each(|line| line.moves = moves.clone());
    assert!(follow(open).contains("the only copy"), "its primary is away, and may have had keys");
}

/// Not on record yet, it had 100-199 as the others see it.
#[test]
fn an_empty_primary_is_let_start_when_another_has_all_its_slots() {
    let beside = |successor: &str| {
        let pods = vec![waiting(false), replica(1, "9", 4), primary(2, 7, successor), primary(3, 0, "0-9")];
        rule(pods, 9, Action::OpenGate(Start::AsIs, "test".to_owned()))
    };
    assert_eq!(beside("100-199"), "");
    assert!(beside("100-198").contains("has a copy") && beside("").contains("has a copy"));
    let mut knows_2 = primary(3, 0, "0-9");
    knows_2.view.as_mut().unwrap().nodes.push(line("2", false, "100-199"));
    let mut unread = primary(2, 7, "100-199");
    unread.view.as_mut().unwrap().summary.current_epoch += 1;
    let pods = vec![waiting(false), replica(1, "9", 4), unread, knows_2];
    let unread = rule(pods, 9, Action::OpenGate(Start::AsIs, String::new()));
    assert!(unread.contains("has a copy"), "only its own word counts: {unread}");
}

/// Node "9" got its slots from "1" and came back empty; "2" has not heard that they are no longer those of "1", which is not read.
#[test]
fn what_others_say_of_a_node_that_is_not_read_replaces_nobody() {
    let open = |pods| rule(pods, 9, Action::OpenGate(Start::AsIs, String::new()));
    let mut late = primary(2, 5, "10-19");
    late.view.iter_mut().for_each(|view| view.nodes.push(line("1", false, "100-199")));
    let unread = PodObservation { view: None, ..primary(1, 9, "0-9") };
    assert!(open(vec![unread, late.clone(), replica(3, "9", 5), waiting(false)]).contains("a replica has a copy"));
    let owner = primary(1, 9, "0-9,100-199");
    assert_eq!(open(vec![owner, late, replica(3, "9", 5), waiting(false)]), "", "it says so itself");
}
