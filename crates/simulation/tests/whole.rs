//! The whole plan through random histories of objects, pods and nodes: it ends ready, or with a reason that is true. After every
//! tick: no plan breaks a rule, no acknowledged key is without a holder, no pod was ended with its slots.

#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod random;

use api::conditions::Reason;
use planner::nodes::Shard;
use proptest::prelude::*;
use simulation::{Faults, Operator, Setup, Stage, Whole, WriteFaults};

#[derive(Clone, Debug)]
enum Event {
    Kill(usize),
    DeletePod(usize),
    DeleteAllPods,
    CutNode(usize, u64),
    KillOperator,
    /// The numbers in the spec: primaries and replicas of each.
    Ask(i32, i32),
    ScaleByHand(u32),
    DeleteStatefulSet {
        with_pods: bool,
    },
    Quota(usize),
    NoQuota,
    LoseCertificate,
    Write(u32),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..14usize).prop_map(Event::Kill),
        3 => (0..14usize).prop_map(Event::DeletePod),
        1 => Just(Event::DeleteAllPods),
        1 => (0..3usize, 1_000..15_000u64).prop_map(|(node, time)| Event::CutNode(node, time)),
        2 => Just(Event::KillOperator),
        3 => (3..7i32, 0..3i32).prop_map(|(masters, replicas)| Event::Ask(masters, replicas)),
        1 => (0..8u32).prop_map(Event::ScaleByHand),
        1 => any::<bool>().prop_map(|with_pods| Event::DeleteStatefulSet { with_pods }),
        1 => (0..8usize).prop_map(Event::Quota),
        1 => Just(Event::NoQuota),
        1 => Just(Event::LoseCertificate),
        3 => (0..1_000_000u32).prop_map(Event::Write),
        5 => (100..12_000u64).prop_map(Event::Wait),
    ]
}

fn happen(stage: &mut Stage, event: &Event) -> Result<(), String> {
    let pod = |index: usize| format!("cache-{index}");
    stage.note(&format!("{event:?}"));
    let Stage { world, operators, kubernetes } = &mut *stage;
    let kubernetes = kubernetes.as_mut().unwrap();
    match event {
        Event::Kill(index) => world.kill(&pod(*index)),
        Event::DeletePod(index) => world.delete_pod(&pod(*index), true),
        Event::DeleteAllPods => {
            let names: Vec<String> = world.pods.keys().cloned().collect();
            names.iter().for_each(|name| world.delete_pod(name, true));
        }
        Event::CutNode(node, time) => cut(stage, *node, *time)?,
        Event::KillOperator => stage.kill_operators(1_500),
        Event::Ask(masters, replicas) => operators.iter_mut().for_each(|it| it.ask_for(*masters, *replicas)),
        Event::ScaleByHand(size) => kubernetes.scale_by_hand(*size),
        Event::DeleteStatefulSet { with_pods } => kubernetes.delete_stateful_set(world, *with_pods),
        Event::Quota(pods) => kubernetes.quota = Some(*pods),
        Event::NoQuota => kubernetes.quota = None,
        Event::LoseCertificate => {
            kubernetes.certificates.lose();
            operators.iter_mut().for_each(Operator::stir);
        }
        Event::Write(key) => {
            world.write("cache", *key);
            stage.run(300)?;
        }
        Event::Wait(time) => stage.run(*time)?,
    }
    stage.tick()
}

fn cut(stage: &mut Stage, node: usize, time: u64) -> Result<(), String> {
    let name = format!("node-{node}");
    let pods = stage.world.pods.values().filter(|pod| pod.kubernetes_node == name);
    let pods: Vec<String> = pods.map(|pod| pod.name.clone()).collect();
    stage.world.excuse(&pods.iter().map(String::as_str).collect::<Vec<_>>());
    stage.world.cut.insert(name.clone());
    stage.run(time)?;
    stage.world.cut.remove(&name);
    Ok(())
}

fn survives(setup: &Setup, seed: u64, unreliable: bool, events: &[Event]) -> Result<(), String> {
    let mut stage = Stage::whole(seed, setup)?;
    if unreliable {
        let faults = Faults { lost_command: 6, lost_answer: 6, late_heartbeat: 3, delay: 400, stale_view: 5 };
        stage.operators.iter_mut().for_each(|operator| operator.line.faults = faults);
        stage.kubernetes.as_mut().unwrap().api.faults = WriteFaults { lost_answer: 5, conflict: 5 };
    }
    // An empty node that had half a slot is not told from one that had nothing: see the scenarios of it.
    stage.world.breaks_off = if unreliable && setup.persistent && setup.saves { 3 } else { 0 };
    for event in events {
        happen(&mut stage, event).map_err(|error| format!("{error}\n{}", stage.complaint()))?;
    }
    stage.operators.iter_mut().for_each(|operator| operator.line.faults = Faults::default());
    stage.kubernetes.as_mut().unwrap().api.faults = WriteFaults::default();
    stage.world.breaks_off = 0;
    stage.until_settled(200_000).map_err(|error| format!("{error}\n{}", stage.complaint()))?;
    judge(&mut stage)
}

fn judge(stage: &mut Stage) -> Result<(), String> {
    let reasons: Vec<Reason> =
        stage.operators.iter().filter_map(|operator| operator.whole.as_ref()).flat_map(Whole::troubles).collect();
    if let Some(reason) = reasons.iter().find(|reason| !is_true(**reason, stage)) {
        return Err(format!("{reason} is not true\n{}", stage.complaint()));
    }
    if !stage.operators.iter().all(Operator::healthy) {
        return if reasons.is_empty() { Err(stage.complaint()) } else { Ok(()) };
    }
    let unreadable = stage.world.unreadable();
    if !unreadable.is_empty() {
        return Err(format!("cannot be read: {unreadable:?}\n{}", stage.complaint()));
    }
    if let Some(difference) = difference(stage) {
        return Err(format!("{difference}\n{}", stage.complaint()));
    }
    stage.stays_still(10_000).map_err(|error| format!("{error}\n{}", stage.complaint()))
}

/// Where a cluster that is called ready is not what was asked for.
fn difference(stage: &Stage) -> Option<String> {
    let operator = stage.operators.first()?;
    let spec = &operator.whole.as_ref()?.spec.spec;
    let number = |asked: Option<i32>| asked.and_then(|asked| usize::try_from(asked).ok()).unwrap_or_default();
    let (masters, replicas) = (number(spec.master_count), number(spec.replicas_per_master));
    let shards = &operator.durable.shards;
    let has_all = |shard: &Shard| shard.nodes.len() == 1 + replicas;
    let as_asked = shards.len() == masters && shards.iter().all(has_all);
    let pods = stage.world.pods.len();
    let text = format!("{masters} x {replicas} are asked for: {} shards, {pods} pods", shards.len());
    (!as_asked || pods != masters * (1 + replicas)).then_some(text)
}

/// Whether the world is as a reason says, where that can be told from it.
fn is_true(reason: Reason, stage: &Stage) -> bool {
    match reason {
        Reason::QuotaExceeded => stage.kubernetes.as_ref().is_some_and(|it| it.quota.is_some()),
        _ => true,
    }
}

proptest! {
    #![proptest_config(random::histories())]

    #[test]
    fn every_history_of_a_cluster_ends_ready_or_with_a_reason_that_is_true(
        (kubernetes_nodes, replicas) in (prop_oneof![Just(1usize), Just(3usize)], 0..2usize),
        seed in any::<u64>(), persistent in any::<bool>(), saves in any::<bool>(), unreliable in any::<bool>(),
        events in proptest::collection::vec(event(), 1..12)
    ) {
        let setup = Setup { persistent, saves, kubernetes_nodes, replicas, ..Setup::default() };
        let outcome = survives(&setup, seed, unreliable, &events);
        prop_assert!(outcome.is_ok(), "{}", outcome.err().unwrap_or_default());
    }
}

/// Pods beyond what is wanted now may own slots as well as others.
#[test]
fn no_slots_are_given_away_before_pods_that_are_not_wanted_any_more_have_spoken() {
    let setup = Setup { replicas: 0, persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [
        Event::Ask(3, 2),
        Event::Ask(4, 2),
        Event::Kill(6),
        Event::CutNode(0, 4_899),
        Event::Ask(3, 1),
        Event::Wait(4_269),
    ];
    survives(&setup, 1_763_379_080_652_067_640, true, &events).unwrap();
}

/// Four shards were formed when three were asked for: with as many replicas as that takes, they are a cluster.
#[test]
fn a_formation_whose_number_of_shards_was_overtaken_by_the_spec_ends() {
    let setup = Setup { persistent: false, ..Setup::default() };
    let events = [
        Event::Ask(4, 2),
        Event::Wait(3_764),
        Event::DeletePod(4),
        Event::Ask(3, 2),
        Event::DeleteAllPods,
        Event::Wait(4_052),
    ];
    survives(&setup, 17_379_648_436_247_869_314, false, &events).unwrap();
}

/// Three shares of four were given when the fourth primary was not wanted any more.
#[test]
fn a_share_that_was_meant_for_a_primary_too_many_goes_to_the_others() {
    let setup = Setup { persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [
        Event::Ask(4, 0),
        Event::DeleteAllPods,
        Event::Wait(2_090),
        Event::Ask(3, 1),
        Event::DeletePod(5),
        Event::Kill(6),
        Event::Kill(3),
        Event::DeletePod(5),
        Event::Ask(3, 1),
        Event::Kill(7),
        Event::NoQuota,
    ];
    survives(&setup, 2_954_947_277_631_108_644, true, &events).unwrap();
}

/// The StatefulSet was written with three pods as its controller made nine: until it is grown again, those beyond end.
#[test]
fn pods_that_the_stateful_set_leaves_out_are_given_nothing() {
    let setup = Setup { replicas: 0, persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [
        Event::Ask(3, 2),
        Event::Ask(3, 0),
        Event::Kill(0),
        Event::Kill(0),
        Event::Ask(3, 1),
        Event::KillOperator,
        Event::CutNode(0, 1_000),
        Event::Kill(0),
    ];
    survives(&setup, 11_663_356_568_372_561_574, false, &events).unwrap();
}

/// The StatefulSet is made smaller while a pod that it leaves out takes slots and has not said so.
#[test]
fn a_pod_that_is_being_given_slots_counts_as_one_that_has_them() {
    let setup = Setup { persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    survives(&setup, 2_175_196_546_941_754_159, true, &[Event::Write(0), Event::Ask(3, 0)]).unwrap();
}

/// Another replica still follows the dead primary, which comes back empty: its successor has the data.
#[test]
fn a_primary_that_was_succeeded_is_let_through_although_it_is_still_followed() {
    let setup = Setup { replicas: 0, persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [Event::Ask(3, 2), Event::Wait(750), Event::KillOperator, Event::Kill(1)];
    survives(&setup, 0, false, &events).unwrap();
}

#[test]
fn whoever_was_restarted_does_not_take_over_from_a_primary_that_waits_with_its_data() {
    let events = [
        Event::Wait(400),
        Event::Ask(3, 0),
        Event::Kill(2),
        Event::Ask(3, 2),
        Event::DeleteStatefulSet { with_pods: true },
    ];
    survives(&Setup::default(), 0, false, &events).unwrap();
    let events = [Event::Ask(3, 2), Event::Wait(700), Event::DeletePod(3), Event::KillOperator, Event::Kill(2)];
    let setup = Setup { replicas: 0, kubernetes_nodes: 1, ..Setup::default() };
    survives(&setup, 1_878_234_762_693_024_151, false, &events).unwrap();
}

/// More primaries were wanted for a moment while the cluster formed: their pods joined, and a user took them away.
#[test]
fn nodes_whose_pods_were_taken_away_for_good_are_forgotten() {
    let mut stage = Stage::whole(7, &Setup::default()).unwrap();
    let events = [
        Event::Wait(550),
        Event::Ask(5, 1),
        Event::Wait(700),
        Event::Ask(3, 1),
        Event::Wait(10_000),
        Event::ScaleByHand(6),
    ];
    for event in events {
        happen(&mut stage, &event).unwrap();
    }
    stage.until_healthy(60_000).unwrap();
    assert_eq!(stage.world.pods.len(), 6, "{}", stage.complaint());
}

/// All pods are gone but the first, and a replica of each shard is dropped from the record before the other: the one on record comes back.
#[test]
fn a_node_on_record_is_not_forgotten_because_its_pod_is_not_wanted_any_more() {
    let setup = Setup { replicas: 0, persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [
        Event::Ask(3, 2),
        Event::Kill(0),
        Event::Wait(550),
        Event::Ask(3, 0),
        Event::NoQuota,
        Event::Ask(3, 0),
        Event::Ask(3, 0),
        Event::Quota(5),
        Event::ScaleByHand(1),
    ];
    survives(&setup, 56_203_332_067_272_893, false, &events).unwrap();
}

/// It was told to follow a primary that is a replica itself by then.
#[test]
fn a_replica_of_a_replica_ends_up_with_the_primary() {
    let setup = Setup { replicas: 1, persistent: false, saves: false, kubernetes_nodes: 3, ..Setup::default() };
    let events = [
        Event::Wait(8_400),
        Event::Ask(4, 1),
        Event::KillOperator,
        Event::KillOperator,
        Event::Write(0),
        Event::Ask(4, 2),
        Event::CutNode(0, 11_250),
        Event::Kill(5),
    ];
    survives(&setup, 13_943_285_196_188_031_143, true, &events).unwrap();
}

/// All pods of a cluster without volumes are gone, one of them for good: it ran another node already, which had nothing.
#[test]
fn a_cluster_whose_pods_all_went_is_formed_anew_in_fewer_pods() {
    let setup = Setup { replicas: 0, persistent: false, saves: false, kubernetes_nodes: 3, ..Setup::default() };
    let events = [
        Event::KillOperator,
        Event::Ask(3, 1),
        Event::Wait(4_300),
        Event::DeleteStatefulSet { with_pods: true },
        Event::Ask(3, 0),
        Event::Kill(2),
        Event::CutNode(0, 1_750),
    ];
    survives(&setup, 0, false, &events).unwrap();
}

/// Four pods of six are left of a cluster without volumes, and all of them are new: the quota keeps the others from coming back.
#[test]
fn a_cluster_whose_pods_are_kept_away_by_a_quota_is_formed_anew_in_those_there() {
    let setup = Setup { persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [Event::Wait(750), Event::Quota(4), Event::ScaleByHand(0), Event::Ask(3, 0)];
    survives(&setup, 0, false, &events).unwrap();
}

/// The record of the formed cluster says that nothing of the pods beyond is needed, and nothing else happens after it.
#[test]
fn what_the_first_record_allows_is_done_although_nothing_else_happens() {
    let setup = Setup { saves: false, ..Setup::default() };
    let events = [
        Event::Wait(11_850),
        Event::Ask(4, 0),
        Event::DeleteAllPods,
        Event::KillOperator,
        Event::LoseCertificate,
        Event::DeletePod(0),
        Event::Quota(4),
        Event::LoseCertificate,
    ];
    survives(&setup, 1_130_408_249_282_659_298, true, &events).unwrap();
}

/// Slots were given to pods that do not know each other yet when fewer pods were asked for, and a quota keeps some of them away: their
/// volumes have slots and data.
#[test]
fn no_slots_are_given_away_over_a_volume_that_was_not_read() {
    let mut stage = Stage::whole(0, &Setup { kubernetes_nodes: 1, ..Setup::default() }).unwrap();
    stage.run(500).unwrap();
    stage.world.cut.insert("node-0".to_owned());
    stage.tick().unwrap();
    stage.world.cut.clear();
    let keys: Vec<u32> = (0..30).filter(|key| stage.world.write("cache", *key)).collect();
    stage.kill_operators(3_000);
    for event in [Event::Ask(3, 0), Event::Quota(3), Event::DeleteAllPods, Event::Wait(2_000)] {
        happen(&mut stage, &event).unwrap();
    }
    // They were deleted by hand, and their volumes have all that they had.
    stage.world.acknowledged.extend(keys);
    happen(&mut stage, &Event::Wait(20_000)).unwrap();
    let busy = (0..200).filter(|_| stage.tick().is_ok() && stage.operators.iter().any(Operator::is_busy)).count();
    assert!(busy < 50, "it asks the same again and again: in {busy} of 200 moments");
    happen(&mut stage, &Event::NoQuota).unwrap();
    stage.until_healthy(60_000).unwrap();
    assert_eq!(stage.world.unreadable(), Vec::<u32>::new(), "{}", stage.complaint());
}

/// Another replica still follows the dead primary, and nothing is on record yet: what it had is what the others took for its own.
#[test]
fn a_primary_that_was_succeeded_before_the_first_record_is_let_through() {
    let setup = Setup { replicas: 0, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [Event::Ask(3, 2), Event::CutNode(0, 11_600), Event::DeletePod(4), Event::NoQuota];
    survives(&setup, 0, false, &events).unwrap();
}

/// A replica in a pod that is not wanted any more did not tell what it sees, and its primary waits with nothing.
#[test]
fn a_copy_in_a_pod_that_is_not_wanted_any_more_is_one() {
    let setup = Setup { persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [
        Event::Wait(8_250),
        Event::Wait(350),
        Event::Quota(0),
        Event::Write(0),
        Event::Kill(2),
        Event::Ask(3, 0),
        Event::Kill(2),
        Event::Quota(0),
    ];
    survives(&setup, 13_339_378_515_265_713_959, true, &events).unwrap();
}

/// Pods that had met the others came back after they were not wanted any more: what they see counts, so they are met again before they go.
#[test]
fn a_formation_of_which_fewer_pods_are_wanted_meanwhile_ends() {
    let setup = Setup { replicas: 0, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [Event::Ask(3, 2), Event::CutNode(1, 1_600), Event::Ask(3, 0), Event::DeleteAllPods];
    survives(&setup, 17_841_853_546_910_260_682, true, &events).unwrap();
}

/// A user took pods away that were on record, one of them the only one with its slots.
#[test]
fn a_size_that_a_user_changed_while_the_spec_asks_for_less_is_settled() {
    let setup = Setup { replicas: 0, persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [Event::Ask(5, 2), Event::Wait(550), Event::ScaleByHand(7), Event::Ask(3, 0)];
    survives(&setup, 0, false, &events).unwrap();
}

/// A user took away pods whose nodes were about to hand over; what was lost with them is forgotten while those pods are away again.
#[test]
fn nodes_that_were_lost_are_forgotten_without_their_pods() {
    let setup = Setup { replicas: 0, persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [
        Event::Kill(0),
        Event::Ask(3, 2),
        Event::Kill(0),
        Event::Write(0),
        Event::Ask(3, 0),
        Event::Write(0),
        Event::ScaleByHand(2),
    ];
    survives(&setup, 0, false, &events).unwrap();
}

/// The replica that a shard that stays lacks is the only copy of slots that are to move there; nodes that go are idle meanwhile.
#[test]
fn a_shard_that_lacks_a_replica_gets_its_slots_with_the_help_of_a_node_that_goes() {
    let setup = Setup { replicas: 0, persistent: false, saves: false, kubernetes_nodes: 1, ..Setup::default() };
    let events = [Event::Ask(5, 1), Event::Wait(500), Event::Ask(4, 0), Event::Ask(3, 1)];
    survives(&setup, 0, false, &events).unwrap();
}
