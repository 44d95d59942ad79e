//! From any state that faults lead to, the cluster becomes whole or says what a human has to do, and then nothing moves.
//! After every tick: no decision breaks a rule, no acknowledged key is without a holder, clusters do not mix.

mod random;

use proptest::prelude::*;
use simulation::{Faults, Operator, Setup, Stage};

#[derive(Clone, Debug)]
enum Blow {
    Kill(usize),
    Replace(usize),
    EmptyVolume(usize),
    RestartAll,
    CutNode(usize, u64),
    KillOperator,
    Reset(usize, bool),
    Forget(usize, usize),
    Write(u32),
    Wait(u64),
}

fn blow() -> impl Strategy<Value = Blow> {
    prop_oneof![
        3 => (0..6usize).prop_map(Blow::Kill),
        3 => (0..6usize).prop_map(Blow::Replace),
        1 => (0..6usize).prop_map(Blow::EmptyVolume),
        1 => Just(Blow::RestartAll),
        2 => (0..3usize, 1_000..15_000u64).prop_map(|(node, time)| Blow::CutNode(node, time)),
        2 => Just(Blow::KillOperator),
        1 => (0..6usize, any::<bool>()).prop_map(|(pod, hard)| Blow::Reset(pod, hard)),
        1 => (0..6usize, 0..6usize).prop_map(|(at, pod)| Blow::Forget(at, pod)),
        3 => (0..1_000_000u32).prop_map(Blow::Write),
        4 => (100..12_000u64).prop_map(Blow::Wait),
    ]
}

fn strike(stage: &mut Stage, blow: &Blow) -> Result<(), String> {
    let pod = |index: usize| format!("cache-{index}");
    stage.note(&format!("{blow:?}"));
    match blow {
        Blow::Kill(index) => stage.world.kill(&pod(*index)),
        Blow::Replace(index) => stage.world.replace(&pod(*index), 700),
        Blow::EmptyVolume(index) => stage.world.empty_volume(&pod(*index)),
        Blow::RestartAll => {
            stage.world.excuse(&["cache-0", "cache-1", "cache-2", "cache-3", "cache-4", "cache-5"]);
            (0..6).for_each(|index| stage.world.replace(&pod(index), 900));
        }
        Blow::CutNode(node, time) => cut(stage, *node, *time)?,
        Blow::KillOperator => {
            stage.kill_operators(1_500);
        }
        Blow::Reset(index, hard) => drop(stage.world.reset(&pod(*index), *hard)),
        Blow::Forget(at, index) => drop(stage.world.forget_by_hand(&pod(*at), &pod(*index))),
        Blow::Write(key) => {
            stage.world.write("cache", *key);
            stage.run(300)?;
        }
        Blow::Wait(time) => stage.run(*time)?,
    }
    stage.tick()
}

fn cut(stage: &mut Stage, node: usize, time: u64) -> Result<(), String> {
    let name = format!("node-{node}");
    let victims: Vec<String> =
        stage.world.pods.values().filter(|p| p.kubernetes_node == name).map(|p| p.name.clone()).collect();
    let victims: Vec<&str> = victims.iter().map(String::as_str).collect();
    stage.world.excuse(&victims);
    stage.world.cut.insert(name.clone());
    stage.run(time)?;
    stage.world.cut.remove(&name);
    Ok(())
}

fn survives(setup: Setup, seed: u64, faults: Faults, blows: &[Blow]) -> Result<(), String> {
    let mut stage = Stage::new(seed, &[setup]);
    stage.operators.iter_mut().for_each(|operator| operator.line.faults = faults);
    for blow in blows {
        strike(&mut stage, blow).map_err(|error| format!("{error}\n{}", stage.complaint()))?;
    }
    stage.operators.iter_mut().for_each(|operator| operator.line.faults = Faults::default());
    stage.until_settled(150_000).map_err(|error| format!("{error}\n{}", stage.complaint()))?;
    if stage.operators.iter().all(Operator::healthy) {
        let unreadable = stage.world.unreadable();
        assert!(unreadable.is_empty(), "cannot be read: {unreadable:?}\n{}", stage.complaint());
        return stage.stays_still(10_000);
    }
    if stage.operators.iter().all(Operator::blocked) { Ok(()) } else { Err(stage.complaint()) }
}

fn with_volumes(kubernetes_nodes: usize) -> Setup {
    Setup { kubernetes_nodes, ..Setup::default() }
}

/// A process that ends takes its data with it.
fn in_memory(kubernetes_nodes: usize) -> Setup {
    Setup { persistent: false, saves: false, ..with_volumes(kubernetes_nodes) }
}

proptest! {
    #![proptest_config(random::histories())]

    #[test]
    fn every_state_that_faults_lead_to_ends_whole_or_with_a_reason(
        kubernetes_nodes in prop_oneof![Just(1usize), Just(3usize)],
        seed in any::<u64>(), persistent in any::<bool>(), saves in any::<bool>(), unreliable in any::<bool>(),
        blows in proptest::collection::vec(blow(), 1..12)
    ) {
        let faults = Faults { lost_command: 6, lost_answer: 6, late_heartbeat: 3, delay: 400, stale_view: 5 };
        let faults = if unreliable { faults } else { Faults::default() };
        let setup = Setup { persistent, saves, kubernetes_nodes, ..Setup::default() };
        let outcome = survives(setup, seed, faults, &blows);
        prop_assert!(outcome.is_ok(), "{}", outcome.err().unwrap_or_default());
    }
}

#[test]
fn a_replica_too_many_moves_to_the_shard_that_lacks_one() {
    let blows = [Blow::Write(0), Blow::Reset(4, true), Blow::Kill(5)];
    survives(with_volumes(3), 0, Faults::default(), &blows).unwrap();
}

/// Each attempt got one vote, from the voter that was free again, for ever.
#[test]
fn votes_that_were_given_at_different_times_come_together() {
    let blows = [Blow::Write(0), Blow::Forget(0, 5), Blow::CutNode(0, 1_250), Blow::Replace(0)];
    survives(in_memory(1), 0, Faults::default(), &blows).unwrap();
}

/// Nothing is on record yet: which pod a dead primary was in is told by its host name alone.
#[test]
fn primaries_replaced_before_the_first_record_are_succeeded() {
    let blows =
        [Blow::Write(0), Blow::Replace(1), Blow::Write(0), Blow::Replace(3), Blow::Forget(0, 0), Blow::EmptyVolume(0)];
    survives(in_memory(3), 487_149_594_246_194_825, Faults::default(), &blows).unwrap();
}

/// A node that does not answer its sidecar in time still tells by its view who lives.
#[test]
fn a_node_heard_by_one_that_is_not_heard_itself_is_not_forgotten() {
    let blows = [
        Blow::Kill(0),
        Blow::Wait(800),
        Blow::Forget(0, 1),
        Blow::EmptyVolume(5),
        Blow::Kill(3),
        Blow::CutNode(1, 1_000),
    ];
    survives(in_memory(3), 8_060_462_598_444_586_277, Faults::default(), &blows).unwrap();
}

#[test]
fn a_primary_that_was_reset_twice_and_killed_while_it_was_formed_is_replaced() {
    let blows = [Blow::Write(0), Blow::Reset(0, false), Blow::Reset(0, true), Blow::Kill(0)];
    survives(in_memory(3), 0, Faults::default(), &blows).unwrap();
}

/// Nobody knows the replica any more, but its primary's sidecar saw it follow to the end.
#[test]
fn a_replica_that_was_forgotten_by_hand_keeps_its_primary_from_starting_empty() {
    let blows = [Blow::Write(0), Blow::Forget(0, 3), Blow::Write(337_433), Blow::Kill(1)];
    survives(in_memory(1), 0, Faults::default(), &blows).unwrap();
}

/// A primary of a half-formed cluster has keys already and knows nobody yet.
#[test]
fn a_primary_that_missed_its_introductions_joins_those_that_know_each_other() {
    let faults = Faults { lost_command: 6, lost_answer: 6, late_heartbeat: 3, delay: 400, stale_view: 5 };
    let blows = [Blow::CutNode(1, 1_800), Blow::Replace(2), Blow::Write(206_830)];
    survives(in_memory(1), 17_497_973_526_639_921_094, faults, &blows).unwrap();
}

/// A half-formed cluster of which one primary was replaced and another reset by hand while the third was cut off.
fn with_a_dead_primary_and_one_that_was_reset() -> Result<Stage, String> {
    let mut stage = Stage::new(7_617_427_268_015_666_467, &[in_memory(3)]);
    for blow in [Blow::Write(0), Blow::Replace(5), Blow::CutNode(0, 5_700), Blow::Reset(0, false)] {
        strike(&mut stage, &blow)?;
    }
    Ok(stage)
}

#[test]
fn a_primary_that_was_reset_hears_of_the_dead_one_and_votes_for_its_successor() {
    let mut stage = with_a_dead_primary_and_one_that_was_reset().unwrap();
    stage.until_healthy(10_000).unwrap();
}

/// A primary that forgot the dead one, and is made to forget it again and again, votes for no successor of it: only a human can
/// take over without votes.
#[test]
fn a_vote_that_cannot_be_won_ends_with_the_way_out() {
    let mut stage = with_a_dead_primary_and_one_that_was_reset().unwrap();
    let known: Vec<_> = stage.world.nodes().flat_map(|node| node.peers.keys().cloned()).collect();
    let gone = known.into_iter().filter(|id| stage.world.nodes().all(|node| node.id != *id));
    let forgotten: Vec<_> = gone.map(|id| (id, u64::MAX)).collect();
    stage.world.node_mut("cache-0").unwrap().forgotten.extend(forgotten);
    stage.run(100_000).unwrap();
    let plan = stage.operators[0].decision.plan.join("; ");
    assert!(plan.contains("run CLUSTER FAILOVER TAKEOVER on cache-4"), "{plan}");
}

/// Most primaries are gone for good, so nobody is left to declare them dead.
#[test]
fn new_nodes_with_the_slots_of_a_lost_majority_are_met_by_the_primary_that_is_left() {
    let faults = Faults { lost_command: 6, lost_answer: 6, late_heartbeat: 3, delay: 400, stale_view: 5 };
    let blows =
        [Blow::EmptyVolume(3), Blow::CutNode(2, 4_150), Blow::Wait(8_150), Blow::Replace(0), Blow::Reset(1, true)];
    survives(in_memory(3), 2_199_965_882_688_366_519, faults, &blows).unwrap();
}

/// Two groups of a half-formed cluster, and a primary that has yet to tell what it sees since its start.
#[test]
fn nobody_is_introduced_over_the_head_of_a_node_that_is_not_read_yet() {
    let blows = [Blow::Kill(4), Blow::Write(377_231), Blow::CutNode(1, 6_340), Blow::Kill(1)];
    survives(with_volumes(3), 772_943_718_893_735_113, Faults::default(), &blows).unwrap();
}

/// The dead owner was forgotten by hand and its replica reset: no view names an owner of the slots any more.
#[test]
fn a_shard_that_nobody_remembers_is_made_anew() {
    let blows = [
        Blow::RestartAll,
        Blow::Kill(4),
        Blow::Write(763_723),
        Blow::CutNode(1, 10_724),
        Blow::Forget(4, 3),
        Blow::Forget(0, 2),
        Blow::Replace(2),
        Blow::Write(479_716),
        Blow::Reset(0, false),
    ];
    survives(in_memory(1), 11_268_835_860_882_576_372, Faults::default(), &blows).unwrap();
}

/// A half-formed cluster in two groups, of which one knows a pod that is away.
#[test]
fn two_groups_do_not_meet_while_a_pod_is_away() {
    let blows = [
        Blow::Forget(5, 3),
        Blow::Forget(4, 2),
        Blow::Forget(5, 2),
        Blow::CutNode(2, 11_534),
        Blow::Kill(3),
        Blow::Replace(5),
        Blow::CutNode(2, 12_853),
        Blow::Kill(5),
        Blow::Replace(1),
        Blow::KillOperator,
        Blow::Replace(2),
    ];
    let setup = Setup { persistent: false, ..with_volumes(3) };
    survives(setup, 8_423_933_698_251_629_787, Faults::default(), &blows).unwrap();
}

/// Voters that forgot the replica of a dead primary do not vote for it before they have met it again.
#[test]
fn a_replica_that_was_forgotten_by_hand_is_introduced_to_those_who_vote() {
    let blows = [
        Blow::Wait(7_589),
        Blow::CutNode(1, 11_918),
        Blow::Wait(8_313),
        Blow::Write(305_971),
        Blow::Forget(5, 4),
        Blow::Kill(5),
        Blow::Kill(5),
    ];
    survives(in_memory(1), 11_514_161_647_537_460_205, Faults::default(), &blows).unwrap();
}

/// Everybody forgot the only replica, and then the primary's pod came back with its volume and without its data.
#[test]
fn a_replica_that_was_forgotten_by_hand_is_known_to_the_next_pod_of_its_primary() {
    let blows = [
        Blow::Wait(10_998),
        Blow::Forget(2, 2),
        Blow::Replace(5),
        Blow::Wait(6_444),
        Blow::Replace(4),
        Blow::Write(979_001),
        Blow::Forget(4, 5),
        Blow::Write(789_077),
        Blow::Replace(0),
    ];
    let setup = Setup { saves: false, ..with_volumes(1) };
    survives(setup, 5_754_971_785_173_784_494, Faults::default(), &blows).unwrap();
}

/// It took over from a primary that was cut off, and lost all of it as that one came back.
#[test]
fn a_primary_that_came_back_empty_leaves_its_slots_to_the_one_it_took_them_from() {
    let blows = [
        Blow::Write(349_127),
        Blow::Wait(3_416),
        Blow::Write(495_790),
        Blow::Wait(10_352),
        Blow::Write(947_453),
        Blow::CutNode(1, 7_246),
        Blow::Kill(3),
        Blow::Wait(3_772),
        Blow::CutNode(1, 14_273),
        Blow::Reset(3, false),
    ];
    let setup = Setup { saves: false, ..with_volumes(3) };
    survives(setup, 5_770_647_768_884_487_191, Faults::default(), &blows).unwrap();
}

/// Two groups that never met, one of which knows a node that is gone.
#[test]
fn a_formation_goes_on_over_what_is_left_of_a_node_that_was_reset() {
    let blows = [
        Blow::Replace(4),
        Blow::Write(801_237),
        Blow::Reset(0, false),
        Blow::Write(994_962),
        Blow::CutNode(1, 10_281),
        Blow::KillOperator,
        Blow::Reset(0, true),
        Blow::Forget(0, 5),
    ];
    let setup = Setup { persistent: false, saves: true, ..with_volumes(3) };
    survives(setup, 421_478_067_486_409_266, Faults::default(), &blows).unwrap();
}

/// The other primaries forgot it, and its only replica was replaced: nobody speaks of its slots.
#[test]
fn a_primary_that_was_forgotten_while_it_was_formed_is_let_through() {
    let blows = [Blow::Write(0), Blow::Forget(0, 0), Blow::Replace(2), Blow::Kill(0)];
    survives(in_memory(1), 11_353_381_012_527_724_063, Faults::default(), &blows).unwrap();
}

/// Its replica took over and was replaced too: two dead nodes had the same slots.
#[test]
fn slots_that_two_dead_nodes_had_are_given_to_one() {
    let blows = [Blow::Wait(800), Blow::Kill(1), Blow::Replace(1), Blow::Forget(0, 0), Blow::Replace(3)];
    survives(in_memory(1), 1_407_485_760_513_406_485, Faults::default(), &blows).unwrap();
}

/// Everybody forgot its replica, which follows it all the same and has nothing either.
#[test]
fn a_forgotten_primary_that_is_followed_waits_for_its_replica() {
    let blows = [Blow::Wait(550), Blow::Forget(0, 2), Blow::RestartAll, Blow::Replace(1), Blow::Kill(5)];
    let setup = Setup { saves: false, ..with_volumes(1) };
    survives(setup, 0, Faults::default(), &blows).unwrap();
}
