//! Who takes over from a dead primary, and when nobody does.

use crate::cluster::{Cluster, ago, finding};
use api::conditions::Reason;
use planner::nodes::{Action, Decision, FailoverMode, FindingKind, Following, NodeFacts, Stage, Valkey};
use planner::safety::check_commands;
use topology::Role;

/// The pods that are told to take over.
fn promoted(decision: &Decision) -> Vec<&str> {
    let force = |action: &Action| *action == Action::Failover(FailoverMode::Force);
    decision.commands.iter().filter(|command| force(&command.action)).map(|command| command.pod.as_str()).collect()
}

fn degraded(decision: &Decision) -> Option<Reason> {
    finding(decision, FindingKind::Degraded).1
}

fn slots_covered(decision: &Decision) -> (Option<bool>, Option<Reason>) {
    let (status, reason, _) = finding(decision, FindingKind::SlotsCovered);
    (status, reason)
}

#[test]
fn a_replica_that_followed_to_the_end_takes_over_however_its_link_broke() {
    for (last_answer, following) in [
        (40, Following::Now),
        (40, Following::Until(ago(10))),
        (10, Following::Until(ago(10))),
        (10, Following::Until(ago(15))),
    ] {
        let mut cluster = Cluster::whole().silent(0, Some(last_answer), true).following(3, following);
        let decision = cluster.after(4);
        assert_eq!(promoted(&decision), ["p-3"], "{following:?}");
        assert_eq!(check_commands(&decision.commands, &cluster.target, &cluster.seen), Ok(()));
    }
}

#[test]
fn a_replica_that_stopped_following_long_before_does_not_take_over_from_a_primary_with_a_volume() {
    let old = Following::Until(ago(3_600));
    for mut cluster in [Cluster::whole().silent(0, Some(10), true), Cluster::whole().down(0, 10)] {
        cluster = cluster.following(3, old);
        let decision = cluster.after(4);
        assert_eq!((promoted(&decision), degraded(&decision)), (vec![], Some(Reason::OnlyOlderCopy)));
        cluster.target.persistent = false;
        assert_eq!(promoted(&cluster.after(4)), ["p-3"], "without a volume nothing more comes back");
    }
}

#[test]
fn when_nobody_knows_when_the_primary_ended_valkey_elects_by_itself() {
    let mut cluster = Cluster::whole().silent(0, None, true).following(3, Following::Until(ago(20)));
    let waits = cluster.after(4);
    assert_eq!((promoted(&waits), degraded(&waits)), (vec![], Some(Reason::AsExpected)));
    assert!(waits.plan.iter().any(|plan| plan.contains("own election")), "{:?}", waits.plan);
    let blocked = cluster.after(30);
    assert_eq!((promoted(&blocked), degraded(&blocked)), (vec![], Some(Reason::OnlyOlderCopy)));
}

#[test]
fn an_hour_old_copy_does_not_stand_in_for_one_that_has_everything_and_is_about_to_end() {
    for persistent in [true, false] {
        let mut cluster = Cluster::whole().with_second_replica().down(0, 10).following(3, Following::Until(ago(3_600)));
        cluster.target.persistent = persistent;
        cluster.seen.pods[6].terminating = true;
        assert_eq!(promoted(&cluster.after(4)), ["p-6"]);
    }
}

#[test]
fn of_two_that_have_everything_the_one_that_stays_takes_over() {
    let mut cluster = Cluster::whole().with_second_replica().down(0, 1).following(3, Following::Until(ago(1)));
    cluster.seen.pods[6].terminating = true;
    assert_eq!(promoted(&cluster.after(4)), ["p-3"]);
}

#[test]
fn when_too_few_are_left_even_to_call_the_others_failed_that_is_said() {
    let cluster = Cluster::whole().silent(0, Some(20), false).silent(1, Some(20), false);
    let decision = cluster.decide();
    assert_eq!((promoted(&decision), degraded(&decision)), (vec![], Some(Reason::MajorityLost)));
    assert_eq!(slots_covered(&decision), (Some(false), Some(Reason::PrimaryDown)));
}

#[test]
fn a_suspicion_alone_begins_nothing_while_enough_are_left_to_vote() {
    let mut cluster = Cluster::whole().silent(0, Some(20), false);
    let decision = cluster.after(60);
    assert_eq!((decision.orchestration, degraded(&cluster.decide())), (None, Some(Reason::AsExpected)));
}

#[test]
fn primaries_that_only_we_do_not_hear_are_neither_dead_nor_known_to_serve() {
    let mut cluster = Cluster::whole().silent(0, Some(20), false).silent(1, Some(20), false);
    [0, 1].iter().for_each(|index| cluster.lines(*index, |line| (line.possibly_failing, line.link_up) = (false, true)));
    let decision = cluster.decide();
    assert_eq!(slots_covered(&decision), (None, Some(Reason::NotHeard)));
    assert_eq!((degraded(&decision), decision.orchestration), (Some(Reason::AsExpected), None));
}

#[test]
fn a_majority_is_not_called_lost_that_others_hear() {
    let mut cluster = Cluster::whole().down(0, 60).silent(1, Some(20), false);
    cluster.lines(1, |line| (line.possibly_failing, line.link_up) = (false, true));
    assert_eq!(degraded(&cluster.decide()), Some(Reason::AsExpected));
}

#[test]
fn a_container_that_only_starts_again_is_not_called_a_lost_majority() {
    let cluster = |since| Cluster::whole().down(0, since).down(1, since).following(3, Following::Never);
    let restarting = cluster(1).decide();
    assert_eq!((promoted(&restarting), degraded(&restarting)), (vec![], Some(Reason::AsExpected)));
    assert_eq!(degraded(&cluster(10).decide()), Some(Reason::MajorityLost));
}

#[test]
fn what_is_blocked_stays_said_while_a_view_is_read_again() {
    let mut cluster = Cluster::whole().down(0, 60).down(1, 60);
    cluster.age_view(2);
    let decision = cluster.decide();
    assert_eq!((promoted(&decision), degraded(&decision)), (vec![], Some(Reason::MajorityLost)));
    assert_eq!(decision.orchestration.map(|running| running.step), Some(Stage::ReadViews));
}

#[test]
fn while_a_new_primary_is_unread_nothing_is_called_lost() {
    let mut cluster = Cluster::whole().down(0, 60);
    cluster.seen.pods[3].view = None;
    if let Valkey::Answers(facts) = &mut cluster.seen.pods[3].valkey {
        (facts.role, facts.primary, facts.summary.slots_mine) = (Role::Primary, None, 5_462);
    }
    let decision = cluster.decide();
    assert_eq!((promoted(&decision), finding(&decision, FindingKind::Degraded).0), (vec![], None));
}

#[test]
fn with_a_view_unread_it_is_not_known_that_nothing_is_wrong() {
    let mut cluster = Cluster::whole();
    cluster.age_view(4);
    assert_eq!(finding(&cluster.decide(), FindingKind::Degraded).0, None);
    assert_eq!(finding(&Cluster::whole().decide(), FindingKind::Degraded).0, Some(false));
}

#[test]
fn a_process_that_outlived_its_pod_is_named_and_begins_nothing() {
    for (started, named) in [(60, true), (3, false)] {
        let mut cluster = Cluster::whole();
        cluster.target.persistent = false;
        cluster.seen.pods[0].view = None;
        let new = NodeFacts { started_at: Some(ago(started)), ..NodeFacts::fresh("7".into()) };
        cluster.seen.pods[0].valkey = Valkey::Answers(new);
        for read_at in [ago(0), ago(3)] {
            let views = cluster.seen.pods.iter_mut().filter_map(|pod| pod.view.as_mut());
            views.for_each(|view| view.read_at = read_at);
            let decision = cluster.decide();
            let (_, _, message) = finding(&decision, FindingKind::Degraded);
            assert_eq!(decision.orchestration, None);
            assert_eq!(message.contains("at 10.0.0.0 still runs"), named, "{message}");
            assert_eq!(decision.commands.is_empty(), read_at == ago(0), "old views are read again");
        }
    }
}
