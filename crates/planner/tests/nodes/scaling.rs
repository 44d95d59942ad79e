//! Every rule for moving slots and for leaving, broken once.

use super::safety::{line, primary, replica, rule, verdict};
use planner::nodes::{Action, FailoverMode, PodObservation, Valkey};

fn give(slots: &str, to: &str) -> Action {
    Action::MigrateSlots(slots.parse().unwrap_or_default(), to.into(), 1)
}

/// Knows this other node too.
fn knowing(mut pod: PodObservation, id: &str) -> PodObservation {
    if let Some(view) = &mut pod.view {
        view.nodes.push(line(id, false, ""));
    }
    pod
}

fn following(number: u32, of: &str) -> PodObservation {
    let mut pod = replica(number, of, 5);
    if let Valkey::Answers(facts) = &mut pod.valkey {
        facts.primary_link_up = true;
    }
    pod
}

fn busy_with(action: Action, pod: PodObservation) -> PodObservation {
    PodObservation { under_way: vec![action], ..pod }
}

/// Primaries 1 and 2 that have slots and a replica each, 1 knows 2.
fn pair() -> Vec<PodObservation> {
    vec![knowing(primary(1, 9, "0-9"), "2"), primary(2, 9, "10-19"), following(3, "1"), following(4, "2")]
}

fn with(change: impl FnOnce(&mut Vec<PodObservation>)) -> Vec<PodObservation> {
    let mut pods = pair();
    change(&mut pods);
    pods
}

#[test]
fn slots_move_from_their_owner_to_a_primary_that_is_as_safe() {
    assert_eq!(verdict(pair(), 1, give("0-5", "2")), Ok(()));
    let broken = |pods, action| rule(pods, 1, action);
    assert!(broken(pair(), give("8-10", "2")).contains("does not own"));
    assert!(broken(pair(), give("", "2")).contains("does not own"));
    assert!(broken(pair(), give("0-5", "1")).contains("target itself"));
    assert!(broken(pair(), give("0-5", "9")).contains("target does not answer"));
    assert!(broken(with(|pods| drop(pods.remove(1))), give("0-5", "2")).contains("target does not answer"));
    assert!(broken(pair(), give("0-5", "4")).contains("is a replica"));
    assert!(broken(with(|pods| drop(pods.pop())), give("0-5", "2")).contains("fewer copies"));
    assert!(broken(with(|pods| pods[1].terminating = true), give("0-5", "2")).contains("about to end"));
    assert!(broken(with(|pods| pods[0] = primary(1, 9, "0-9")), give("0-5", "2")).contains("does not know"));
    assert!(broken(with(|pods| pods[1] = primary(2, 9, "5-19")), give("0-5", "2")).contains("another node says"));
}

#[test]
fn nothing_else_happens_to_shards_between_which_slots_move() {
    let moving = || with(|pods| pods[0].under_way = vec![give("0-5", "2")]);
    let more = |pods: Vec<PodObservation>, pod| [pods, vec![pod]].concat();
    let being_moved = |pods, number, action| rule(pods, number, action).contains("being moved");
    let hand_over = || Action::Failover(FailoverMode::Coordinated, None);
    assert!(being_moved(moving(), 3, hand_over()) && being_moved(moving(), 4, hand_over()));
    assert!(being_moved(moving(), 4, Action::Leave) && being_moved(moving(), 3, Action::Replicate("2".into())));
    assert!(being_moved(moving(), 2, give("10-12", "1")));
    assert!(being_moved(more(moving(), knowing(primary(5, 9, "20-29"), "2")), 5, give("20-22", "2")));
    let electing = with(|pods| pods[3] = busy_with(Action::Failover(FailoverMode::Force, None), pods[3].clone()));
    assert!(rule(electing, 1, give("0-5", "2")).contains("election"));
}

#[test]
fn only_a_node_that_is_not_missed_leaves() {
    let leaves = |pods, number| verdict(pods, number, Action::Leave);
    let three = || [pair(), vec![following(7, "1")]].concat();
    assert_eq!(leaves(three(), 7), Ok(()), "its pod goes, and a replica stays");
    assert_eq!(leaves(three(), 3).map_err(|it| it.rule.contains("too few copies")), Err(true), "the other one goes");
    assert_eq!(leaves([pair(), vec![primary(7, 0, "")]].concat(), 7), Ok(()));
    let why = |pods, number| rule(pods, number, Action::Leave);
    assert!(why(pair(), 1).contains("owns slots"));
    assert!(why([pair(), vec![primary(7, 1, "")]].concat(), 7).contains("holds keys"));
    assert!(why([pair(), vec![primary(7, 0, ""), following(8, "7")]].concat(), 7).contains("has replicas"));
    assert!(why([pair(), vec![primary(7, 0, ""), following(8, "7")]].concat(), 8).contains("without slots"));
    assert!(why([pair(), vec![following(8, "6")]].concat(), 8).contains("primary does not answer"));
    let goes = with(|pods| pods[0] = PodObservation { name: "p-6".into(), ..pods[0].clone() });
    assert!(why([goes, vec![following(8, "1")]].concat(), 8).contains("too few copies"), "one of two has to take over");
}

/// In step as it may be, it is gone in a moment: another one that leaves as well would be the last.
#[test]
fn a_copy_that_ends_or_was_told_to_go_counts_for_nobody() {
    let three = || [pair(), vec![following(7, "1")]].concat();
    let leaves = |pods| verdict(pods, 7, Action::Leave).map_err(|it| it.rule.contains("too few copies"));
    let with_third = |change: fn(&mut PodObservation)| {
        let mut pods = three();
        change(&mut pods[2]);
        pods
    };
    assert_eq!(leaves(with_third(|pod| pod.terminating = true)), Err(true));
    assert_eq!(leaves(with_third(|pod| pod.under_way = vec![Action::Replicate("2".into())])), Err(true));
    assert_eq!(leaves(with_third(|pod| pod.under_way = vec![Action::Replicate("1".into())])), Ok(()), "it only comes");
    let fewer = with(|pods| pods[3].terminating = true);
    assert!(rule(fewer, 1, give("0-5", "2")).contains("fewer copies"));
}
