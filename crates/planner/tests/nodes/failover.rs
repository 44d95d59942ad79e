//! Who takes over from a dead primary, and when nobody does.

use crate::cluster::{Cluster, ago, finding, id};
use api::conditions::Reason;
use planner::nodes::{
    Action, Answered, Boot, Decision, FailoverMode, FindingKind, Following, NodeFacts, NodeState, Outcome, PodCommand,
    ShardNode, Stage, Start, Valkey,
};
use planner::safety::check_commands;
use topology::{Position, Role, SlotSet};

/// The pods that are told to take over.
fn promoted(decision: &Decision) -> Vec<&str> {
    let force = |action: &Action| matches!(action, Action::Failover(FailoverMode::Force, _));
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

/// The first primary is away in two ways, and its replica has had no link for an hour.
fn with_an_old_copy() -> [Cluster; 2] {
    let away = [Cluster::whole().silent(0, Some(10), true), Cluster::whole().down(0, 10)];
    away.map(|cluster| cluster.following(3, Following::Until(ago(3_600))))
}

#[test]
fn an_old_copy_does_not_take_over_while_the_volume_or_the_pod_is_there_that_has_more() {
    for mut cluster in with_an_old_copy() {
        for persistent in [true, false] {
            cluster.target.persistent = persistent;
            let decision = cluster.after(4);
            assert_eq!(
                (promoted(&decision), degraded(&decision)),
                (vec![], Some(Reason::OnlyOlderCopy)),
                "{persistent}"
            );
        }
    }
}

#[test]
fn without_a_volume_nothing_more_comes_back_once_the_pod_is_another_or_gone() {
    let replaced = |mut cluster: Cluster| {
        cluster.change(0, |pod| pod.uid = "uid-of-the-next".into());
        cluster.change(0, |pod| {
            if let Valkey::Down { node_id, .. } = &mut pod.valkey {
                *node_id = None;
            }
        });
        cluster
    };
    let gone = |mut cluster: Cluster| {
        cluster.seen.pods.remove(0);
        cluster
    };
    let [silent, down] = with_an_old_copy().map(replaced);
    let [deleted, _] = with_an_old_copy().map(gone);
    for mut cluster in [silent, down, deleted] {
        assert_eq!(promoted(&cluster.after(4)), [""; 0], "its volume is kept");
        cluster.target.persistent = false;
        let decision = cluster.after(4);
        assert_eq!(promoted(&decision), ["p-3"]);
        assert_eq!(check_commands(&decision.commands, &cluster.target, &cluster.seen), Ok(()));
    }
}

/// What the sidecar of a killed primary says once its container is back.
fn waiting(has_data: bool) -> Boot {
    Boot {
        since: ago(10),
        reason: String::new(),
        last_node_id: Some(id(0)),
        last_role: Some(Role::Primary),
        has_data,
        clean_stop: false,
        owned_slots: true,
        known_replicas: vec![id(3)],
        better_copy: None,
        journal: false,
    }
}

/// Its copy may be newer than what the primary has on its disk: a replica that froze for a moment is not one that has nothing.
#[test]
fn a_primary_with_data_is_not_let_through_while_its_replica_is_not_heard() {
    for journal in [true, false] {
        let boot = Boot { journal, ..waiting(true) };
        let [_, mut heard] = with_an_old_copy();
        heard.change(0, |pod| pod.valkey = Valkey::Waiting(boot.clone()));
        assert!(opens(&heard.after(4)), "its replica answers, and has less");
        let mut unheard = heard;
        unheard.change(3, |pod| pod.valkey = Valkey::Unknown);
        let decision = unheard.after(4);
        assert!(!opens(&decision), "{:?}", decision.commands);
        let expected = if journal { "p-3 to be heard" } else { "p-3 is not heard" };
        assert!(decision.plan.iter().any(|text| text.contains(expected)), "{:?}", decision.plan);
        let reason = (!journal).then_some(Reason::OnlyOlderCopy);
        assert_eq!(degraded(&decision).filter(|reason| *reason == Reason::OnlyOlderCopy), reason);
    }
}

fn opens(decision: &Decision) -> bool {
    decision.commands.iter().any(|command| matches!(command.action, Action::OpenGate(..)))
}

/// Its primary waits with a snapshot, and it froze a moment ago.
fn with_a_silent_replica() -> Cluster {
    let mut cluster = Cluster::whole().silent(3, Some(10), true);
    cluster.change(0, |pod| (pod.valkey, pod.view) = (Valkey::Waiting(waiting(true)), None));
    cluster
}

#[test]
fn a_snapshot_is_let_through_once_its_silent_replica_is_gone() {
    let mut replaced = with_a_silent_replica();
    let fresh = NodeFacts::fresh(id(9));
    replaced.change(3, |pod| {
        (pod.connected, pod.uid, pod.valkey) = (true, "uid-of-the-next".into(), Valkey::Answers(fresh.clone()));
    });
    let mut starting = with_a_silent_replica();
    starting.change(3, |pod| pod.uid = "uid-of-the-next".into());
    let mut deleted = with_a_silent_replica();
    deleted.seen.pods.remove(3);
    for (mut cluster, with_volumes) in [(replaced, true), (starting, false), (deleted, false)] {
        for persistent in [true, false] {
            cluster.target.persistent = persistent;
            let decision = cluster.after(4);
            assert_eq!(opens(&decision), with_volumes || !persistent, "{persistent}: {:?}", decision.plan);
            assert_eq!(check_commands(&decision.commands, &cluster.target, &cluster.seen), Ok(()));
        }
    }
}

/// Two of three primaries wait: whoever is let through serves again at once, and one of the two may have the older copy.
#[test]
fn a_missing_majority_does_not_let_a_snapshot_through_while_its_replica_is_not_heard() {
    let mut cluster = with_a_silent_replica().down(1, 10);
    assert!(!opens(&cluster.after(4)));
    cluster.change(0, |pod| pod.valkey = Valkey::Waiting(Boot { journal: true, ..waiting(true) }));
    let decision = cluster.after(4);
    assert!(opens(&decision), "it has all it wrote: {:?}", decision.plan);
    assert_eq!(check_commands(&decision.commands, &cluster.target, &cluster.seen), Ok(()));
}

/// The leader was away when the two changed places.
#[test]
fn a_snapshot_waits_for_whoever_shared_its_slots_whatever_the_record_says_of_them() {
    let mut swapped = with_a_silent_replica();
    for node in swapped.seen.recorded.iter_mut().flat_map(|shard| &mut shard.nodes) {
        if [id(0), id(3)].contains(&node.node_id) {
            node.role = if node.role == Role::Primary { Role::Replica } else { Role::Primary };
        }
    }
    let mut forgotten = with_a_silent_replica();
    forgotten.seen.recorded.retain(|shard| shard.nodes.iter().all(|node| node.node_id != id(0)));
    for mut cluster in [swapped, forgotten] {
        let decision = cluster.after(4);
        assert!(!opens(&decision), "{:?}", decision.plan);
    }
}

/// An order that was once refused, for whatever reason, says nothing of what is there now.
#[test]
fn a_gate_that_did_not_open_once_lets_no_old_copy_take_over() {
    let [_, mut cluster] = with_an_old_copy();
    let refused = Answered {
        action: Action::OpenGate(Start::AsIs, String::new()),
        at: ago(3_600),
        orchestration: String::new(),
        step_version: 1,
        outcome: Outcome::Refused("its replicas are asked first what they have".to_owned()),
        changed: false,
    };
    cluster.change(0, |pod| (pod.valkey, pod.answer) = (Valkey::Waiting(waiting(true)), Some(refused.clone())));
    assert_eq!(promoted(&cluster.after(4)), Vec::<&str>::new());
    let boot = Boot { better_copy: Some(id(3)), ..waiting(true) };
    cluster.change(0, |pod| pod.valkey = Valkey::Waiting(boot.clone()));
    assert_eq!(promoted(&cluster.after(4)), ["p-3"], "its sidecar knows that the copy is newer than its snapshot");
}

#[test]
fn a_primary_is_not_let_through_while_its_replica_takes_over() {
    let [_, mut cluster] = with_an_old_copy();
    cluster.change(0, |pod| pod.valkey = Valkey::Waiting(waiting(true)));
    cluster.change(3, |pod| pod.under_way = vec![Action::Failover(FailoverMode::Force, None)]);
    let decision = cluster.after(4);
    assert!(decision.commands.iter().all(|command| command.action.is_reading()), "{:?}", decision.commands);
    assert!(decision.plan.iter().any(|text| text.contains("to say whether it took over")), "{:?}", decision.plan);
}

#[test]
fn what_starts_again_without_data_is_not_waited_for() {
    for has_data in [false, true] {
        let [_, mut cluster] = with_an_old_copy();
        let boot = waiting(has_data);
        cluster.change(0, |pod| pod.valkey = Valkey::Waiting(boot.clone()));
        cluster.target.persistent = false;
        assert_eq!(promoted(&cluster.after(4)), if has_data { vec![] } else { vec!["p-3"] });
    }
}

/// Its primary came back with nothing, and of its two replicas the first was restarted and the second is frozen.
fn with_a_restarted_and_a_silent_replica() -> Cluster {
    let mut cluster = Cluster::whole().with_second_replica().silent(6, Some(10), true).following(3, Following::Never);
    let second = ShardNode {
        pod: "p-6".into(),
        pod_uid: Some("uid-6".into()),
        node_id: id(6),
        role: Role::Replica,
        state: NodeState::Online,
    };
    cluster.seen.recorded.iter_mut().take(1).for_each(|shard| shard.nodes.push(second.clone()));
    cluster.change(0, |pod| (pod.valkey, pod.view) = (Valkey::Waiting(waiting(false)), None));
    cluster
}

#[test]
fn whoever_was_restarted_does_not_take_over_while_another_may_have_followed_to_the_end() {
    let take_over = || {
        let action = Action::Failover(FailoverMode::Force, None);
        [PodCommand { pod: "p-3".into(), pod_uid: "uid-3".into(), action }]
    };
    let mut cluster = with_a_restarted_and_a_silent_replica();
    let decision = cluster.after(10);
    assert_eq!((promoted(&decision), degraded(&decision)), (vec![], Some(Reason::OnlyOlderCopy)));
    assert!(decision.plan.iter().any(|text| text.contains("p-6 is not heard")), "{:?}", decision.plan);
    assert!(check_commands(&take_over(), &cluster.target, &cluster.seen).is_err());
    cluster.target.persistent = false;
    cluster.seen.pods.remove(6);
    assert_eq!(promoted(&cluster.after(10)), ["p-3"], "without a volume the other is gone");
    assert_eq!(check_commands(&take_over(), &cluster.target, &cluster.seen), Ok(()));
}

#[test]
fn a_replica_below_what_its_primary_was_seen_to_have_does_not_take_over_while_that_may_come_back() {
    let last = Position { replication_id: "history-0".to_owned(), offset: 150 };
    let seen = |offset, following| {
        let mut cluster = Cluster::whole().down(0, 1).following(3, following);
        cluster.change(0, |pod| pod.last_position = Some(last.clone()));
        cluster.facts(3, |facts| facts.replication_offset = offset);
        cluster
    };
    let lost = Following::Until(ago(6));
    let waits = seen(149, lost).after(0);
    assert_eq!((promoted(&waits), degraded(&waits)), (vec![], Some(Reason::AsExpected)), "it only starts again");
    for (offset, following) in [(150, lost), (100, Following::Now)] {
        let mut cluster = seen(offset, following);
        let decision = cluster.after(0);
        assert_eq!(promoted(&decision), ["p-3"], "{offset} {following:?}");
        let told = Action::Failover(FailoverMode::Force, Some(last.clone()));
        assert!(decision.commands.iter().any(|command| command.action == told), "its sidecar compares again");
        assert_eq!(check_commands(&decision.commands, &cluster.target, &cluster.seen), Ok(()));
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
fn a_primary_that_starts_again_is_not_called_a_lost_shard_while_its_data_is_kept() {
    let down = |seconds| Cluster::whole().down(0, seconds).down(3, 9_000);
    let waited = down(20).after(20);
    assert_eq!(degraded(&waited), Some(Reason::AsExpected));
    assert!(waited.plan.iter().any(|text| text.contains("p-0 to start again")), "{:?}", waited.plan);
    assert_eq!(degraded(&down(40).after(40)), Some(Reason::PrimaryDown), "by now somebody should look");
    let mut without = down(40);
    without.target.persistent = false;
    without.change(0, |pod| {
        (pod.uid, pod.valkey) = ("uid-of-the-next".into(), Valkey::Down { since: ago(40), node_id: None })
    });
    assert_eq!(degraded(&without.after(40)), Some(Reason::ShardLost), "its pod is another one, and had no volume");
}

#[test]
fn what_is_blocked_stays_said_while_a_view_is_read_again() {
    let mut cluster = Cluster::whole().down(0, 60).down(1, 60);
    cluster.change(2, |pod| pod.view = None);
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

/// A portion takes some seconds, and its source cannot be asked for its view meanwhile.
#[test]
fn a_failover_does_not_wait_for_slots_that_move_elsewhere() {
    let mut cluster = Cluster::whole().down(1, 1);
    let half = "0-99".parse().unwrap_or_default();
    cluster.change(0, |pod| pod.under_way = vec![Action::MigrateSlots(SlotSet::clone(&half), id(2), 1)]);
    [0, 2].into_iter().for_each(|index| cluster.age_view(index));
    let decision = cluster.decide();
    assert_eq!(promoted(&decision), ["p-4"]);
    assert_eq!(check_commands(&decision.commands, &cluster.target, &cluster.seen), Ok(()));
}

#[test]
fn who_may_have_taken_over_is_read_before_another_does() {
    let mut cluster = Cluster::whole().with_second_replica().down(0, 1);
    cluster.facts(3, |facts| (facts.role, facts.primary, facts.summary.slots_mine) = (Role::Primary, None, 5_461));
    let decision = cluster.decide();
    assert_eq!(promoted(&decision), [""; 0], "p-3 has it, and no view says so yet");
}
