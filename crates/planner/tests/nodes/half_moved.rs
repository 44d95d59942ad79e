//! More and fewer shards while something is in between: a slot half moved, a replica away, a move under way.

use crate::cluster::{Cluster, id};
use planner::nodes::{Action, Decision, FailoverMode, Orchestration, PodCommand};
use planner::safety::check_commands;
use topology::SlotSet;

fn told(cluster: &Cluster) -> Vec<PodCommand> {
    let Decision { commands, .. } = cluster.decide();
    assert_eq!(check_commands(&commands, &cluster.target, &cluster.seen), Ok(()));
    commands.into_iter().filter(|command| !command.action.is_reading()).collect()
}

fn finish(slot: &str) -> Action {
    Action::MigrateSlots(slot.parse().unwrap_or_default(), id(6), 1)
}

/// What was begun with four shards goes on with so many.
fn now_with(mut cluster: Cluster, masters: usize) -> Cluster {
    let running: Option<Orchestration> = cluster.decide().orchestration;
    (cluster.seen.running, cluster.target.masters) = (running, masters);
    cluster
}

#[test]
fn the_first_slot_of_a_new_shard_that_is_half_moved_is_finished() {
    let cluster = Cluster::whole().with_new_shard(3).half_moved(5, 6);
    let told = told(&cluster);
    let from_its_owner = |command: &PodCommand| command.pod.as_str() == "p-0" && command.action == finish("5");
    assert!(told.iter().any(from_its_owner), "{told:?} {:?}", cluster.decide().plan);
}

#[test]
fn a_slot_that_only_the_target_holds_open_is_finished_by_whoever_owns_it_now() {
    let mut cluster = Cluster::whole().with_new_shard(3).half_moved(5, 6);
    cluster.own_line(0, |line| line.moves.clear());
    cluster.own_line(6, |line| line.moves.iter_mut().for_each(|open| open.other = "gone".into()));
    assert_eq!(told(&cluster).first().map(|command| command.action.clone()), Some(finish("5")));
}

/// Without keys somebody marked it by hand: no node with such a mark leaves.
#[test]
fn a_half_moved_slot_is_finished_when_the_new_shard_is_not_wanted_any_more() {
    for keys in [3, 0] {
        let cluster = now_with(Cluster::whole().with_new_shard(keys).half_moved(5, 6), 3);
        let told = told(&cluster);
        assert!(told.iter().any(|command| command.action == finish("5")), "{told:?} {:?}", cluster.decide().plan);
        assert!(told.iter().all(|command| command.action != Action::Leave), "{told:?}");
    }
}

/// The only copy of what was half moved.
#[test]
fn the_replica_of_a_primary_with_half_moved_keys_goes_nowhere_else() {
    for (masters, replicas) in [(4, 2), (3, 2), (4, 1)] {
        let mut cluster = now_with(Cluster::whole().with_new_shard(3).half_moved(5, 6), masters);
        cluster.target.replicas_per_master = replicas;
        for known in [true, false] {
            let told = told(&cluster);
            assert!(told.iter().all(|command| command.pod.as_str() != "p-7"), "{masters} {replicas} {known}: {told:?}");
            cluster.own_line(0, |line| line.moves.clear());
            cluster.own_line(6, |line| line.moves.clear());
        }
    }
}

#[test]
fn a_new_primary_with_followers_stays_one_while_a_replica_is_away() {
    let cluster = Cluster::whole().with_new_shard(0).down(3, 1);
    let newcomer = |command: &PodCommand| ["p-6", "p-7"].contains(&command.pod.as_str());
    let told = told(&cluster);
    assert!(!told.iter().any(newcomer), "{told:?}");
}

#[test]
fn a_replica_that_loses_its_link_changes_nothing_about_which_shards_stay() {
    for in_sync in [true, false] {
        let mut cluster = Cluster::whole();
        cluster.target.masters = 2;
        for (replica, of) in [(3, 2), (5, 0)] {
            cluster.facts(replica, |facts| facts.primary = Some(id(of)));
        }
        cluster.facts(3, |facts| facts.primary_link_up = in_sync);
        let told = told(&cluster);
        assert!(told.iter().all(|command| command.pod.as_str() != "p-2"), "in sync {in_sync}: {told:?}");
    }
}

#[test]
fn nobody_is_released_from_a_shard_whose_slots_are_moving() {
    let mut cluster = Cluster::whole();
    (cluster.target.masters, cluster.target.replicas_per_master) = (6, 0);
    let slots: SlotSet = "0-9".parse().unwrap_or_default();
    cluster.change(0, |pod| pod.under_way = vec![Action::MigrateSlots(slots.clone(), id(1), 0)]);
    let told = told(&cluster);
    assert!(told.iter().any(|command| command.pod.as_str() == "p-5" && command.action == Action::Leave), "{told:?}");
}

#[test]
fn a_new_shard_that_has_most_of_anothers_slots_does_not_take_its_name() {
    let mut cluster = Cluster::whole().with_new_shard(9);
    for (index, slots) in [(0, "4000-5461"), (6, "0-3999")] {
        let slots: SlotSet = slots.parse().unwrap_or_default();
        cluster.own_line(index, |line| line.slots = slots.clone());
    }
    let shards = cluster.decide().shards;
    let named = shards.iter().find(|shard| shard.id.as_str() == "shard-0").and_then(|shard| shard.nodes.first());
    assert_eq!(named.map(|node| &node.node_id), Some(&id(0)), "{shards:?}");
}

#[test]
fn a_primary_without_an_heir_does_not_hold_up_the_others() {
    let mut cluster = Cluster::whole();
    for (index, name) in [(0, "p-3"), (1, "p-4"), (3, "p-0"), (4, "p-1")] {
        cluster.change(index, |pod| pod.name = name.into());
    }
    cluster.target.replicas_per_master = 0;
    cluster.facts(3, |facts| facts.primary_link_up = false);
    let (mut heirs, take_over) = (told(&cluster).into_iter(), Action::Failover(FailoverMode::Coordinated, None));
    assert!(
        heirs.any(|command| command.pod.as_str() == "p-1" && command.action == take_over),
        "{:?}",
        cluster.decide().plan
    );
}
