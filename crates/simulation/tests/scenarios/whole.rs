//! The whole plan: objects and nodes together, from an empty namespace on.

use crate::support::{Outcome, ends_whole, golden, primary_of, write_keys};
use api::conditions::Reason;
use simulation::{Setup, Stage};

fn made(seed: u64, setup: &Setup) -> Result<Stage, String> {
    let mut stage = Stage::whole(seed, setup)?;
    ends_whole(&mut stage, 60_000)?;
    write_keys(&mut stage, setup.name);
    stage.run(1_000)?;
    Ok(stage)
}

fn says(stage: &Stage, reason: Reason) -> bool {
    let operators = stage.operators.iter().filter_map(|operator| operator.whole.as_ref());
    operators.flat_map(simulation::Whole::troubles).any(|trouble| trouble == reason)
}

#[test]
fn an_empty_namespace_becomes_a_cluster() -> Outcome {
    let mut stage = Stage::whole(1, &Setup::default())?;
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(stage.world.pods.len(), 6);
    golden(&stage, "whole-form")
}

/// How many pods, shards, and replicas of each.
fn numbers(stage: &Stage) -> (usize, usize, Vec<usize>) {
    let shards: Vec<usize> = stage
        .operators
        .iter()
        .flat_map(|operator| &operator.durable.shards)
        .map(|shard| shard.nodes.len().saturating_sub(1))
        .collect();
    (stage.world.pods.len(), shards.len(), shards)
}

fn scaled(stage: &mut Stage, masters: u8, replicas: u8) -> Outcome {
    stage.note(&format!("masterCount becomes {masters}, replicasPerMaster {replicas}"));
    stage.operators.iter_mut().for_each(|operator| operator.ask_for(masters.into(), replicas.into()));
    stage.run(1_000)?;
    ends_whole(stage, 120_000)?;
    let (shards, each) = (usize::from(masters), usize::from(replicas));
    assert_eq!(numbers(stage), (shards * (1 + each), shards, vec![each; shards]), "{}", stage.complaint());
    assert_eq!(stage.world.unreadable(), Vec::<u32>::new());
    Ok(())
}

#[test]
fn more_shards_get_pods_and_an_even_share_of_the_slots() -> Outcome {
    let mut stage = made(2, &Setup::default())?;
    scaled(&mut stage, 6, 1)?;
    let slots: Vec<u32> = stage.operators[0].durable.shards.iter().map(|shard| shard.slots.count()).collect();
    assert!(slots.iter().all(|count| (2_730..=2_731).contains(count)), "{slots:?}");
    golden(&stage, "whole-scaled-out")
}

#[test]
fn fewer_shards_give_their_slots_away_before_their_pods_end() -> Outcome {
    let mut stage = made(2, &Setup { masters: 6, ..Setup::default() })?;
    scaled(&mut stage, 3, 1)?;
    golden(&stage, "whole-scaled-in")
}

#[test]
fn numbers_of_shards_and_replicas_change_together() -> Outcome {
    for seed in 0..4 {
        let setup = Setup { persistent: seed % 2 == 0, ..Setup::default() };
        let mut stage = made(seed, &setup)?;
        for (masters, replicas) in [(5, 0), (3, 2), (4, 1), (3, 0), (6, 2), (3, 1)] {
            scaled(&mut stage, masters, replicas).map_err(|error| format!("seed {seed}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_change_that_is_taken_back_half_way_is_undone() -> Outcome {
    for (seed, time) in (1..12).map(|step| (step, step * 700)) {
        let mut stage = made(seed, &Setup::default())?;
        stage.operators[0].ask_for(6, 1);
        stage.run(time)?;
        scaled(&mut stage, 3, 1).map_err(|error| format!("after {time}: {error}"))?;
        stage.operators[0].ask_for(5, 0);
        stage.run(time)?;
        scaled(&mut stage, 3, 2).map_err(|error| format!("after {time}: {error}"))?;
    }
    Ok(())
}

#[test]
fn raised_replicas_get_pods_and_join() -> Outcome {
    let mut stage = made(3, &Setup::default())?;
    stage.note("replicasPerMaster becomes 2");
    stage.operators[0].ask_for(3, 2);
    ends_whole(&mut stage, 60_000)?;
    assert!(stage.operators[0].durable.shards.iter().all(|shard| shard.nodes.len() == 3), "{}", stage.complaint());
    golden(&stage, "whole-replicas-raised")
}

#[test]
fn a_stateful_set_that_is_scaled_down_by_hand_is_repaired_and_its_pods_come_back() -> Outcome {
    let mut stage = made(4, &Setup::default())?;
    stage.note("the StatefulSet is scaled to 2 by hand");
    stage.kubernetes.as_mut().unwrap().scale_by_hand(2);
    stage.run(1_000)?;
    ends_whole(&mut stage, 120_000)?;
    assert_eq!((stage.world.pods.len(), stage.world.unreadable().len()), (6, 0));
    golden(&stage, "whole-scaled-by-hand")
}

#[test]
fn a_stateful_set_that_is_deleted_without_its_pods_adopts_them_again() -> Outcome {
    let mut stage = made(5, &Setup::default())?;
    let uids: Vec<u64> = stage.world.pods.values().map(|pod| pod.uid).collect();
    stage.note("the StatefulSet is deleted, its pods stay");
    let Stage { world, kubernetes, .. } = &mut stage;
    kubernetes.as_mut().unwrap().delete_stateful_set(world, false);
    stage.run(1_000)?;
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(stage.world.pods.values().map(|pod| pod.uid).collect::<Vec<_>>(), uids);
    Ok(())
}

#[test]
fn a_stateful_set_that_is_deleted_with_its_pods_is_made_again_over_the_volumes() -> Outcome {
    let mut stage = made(6, &Setup::default())?;
    let keys = stage.world.acknowledged.clone();
    let Stage { world, kubernetes, .. } = &mut stage;
    kubernetes.as_mut().unwrap().delete_stateful_set(world, true);
    stage.run(2_000)?;
    ends_whole(&mut stage, 120_000)?;
    stage.world.acknowledged = keys;
    assert_eq!(stage.world.unreadable(), Vec::<u32>::new());
    Ok(())
}

#[test]
fn a_dead_primary_is_succeeded_before_anything_is_written() -> Outcome {
    let mut stage = made(7, &Setup::default())?;
    let dead = primary_of(&stage, 0);
    stage.note("the primary's process is killed");
    stage.world.kill(&dead);
    stage.run(1_000)?;
    ends_whole(&mut stage, 60_000)?;
    golden(&stage, "whole-primary-killed")
}

#[test]
fn a_used_up_quota_is_named_and_waited_for() -> Outcome {
    let mut stage = Stage::whole(8, &Setup::default())?;
    stage.kubernetes.as_mut().unwrap().quota = Some(4);
    stage.run(30_000)?;
    assert!(says(&stage, Reason::QuotaExceeded), "{}", stage.complaint());
    assert!(stage.world.nodes().all(|node| node.slots.is_empty()));
    stage.note("the quota is raised");
    stage.kubernetes.as_mut().unwrap().quota = None;
    ends_whole(&mut stage, 60_000)?;
    golden(&stage, "whole-quota")
}

/// In memory and without replicas, nothing is left of any node: it is formed anew, with all its pods.
#[test]
fn a_cache_without_replicas_whose_pods_are_all_deleted_gets_all_of_them_back() -> Outcome {
    let setup = Setup { replicas: 0, persistent: false, saves: false, ..Setup::default() };
    for seed in 0..20 {
        let mut stage = made(seed, &setup)?;
        let pods: Vec<String> = stage.world.pods.keys().cloned().collect();
        pods.iter().for_each(|pod| stage.world.delete_pod(pod, true));
        stage.run(2_000)?;
        ends_whole(&mut stage, 120_000).map_err(|error| format!("seed {seed}: {error}"))?;
        assert_eq!(stage.world.pods.len(), 3, "seed {seed}");
    }
    Ok(())
}

/// A new shard that has half of its first slot, whose move broke off as the source's container died.
fn half_moved(seed: u64) -> Result<Stage, String> {
    let mut stage = made(seed, &Setup::default())?;
    stage.world.breaks_off = 1;
    stage.operators.iter_mut().for_each(|operator| operator.ask_for(5, 1));
    let half = |node: &&simulation::Node| node.slots.is_empty() && !node.keys.is_empty() && !node.moves.is_empty();
    while !stage.world.nodes().any(|node| half(&node)) && stage.world.now < 120_000 {
        stage.tick()?;
    }
    let sources: Vec<String> = stage
        .world
        .nodes()
        .filter(|node| node.moves.iter().any(|open| !open.importing))
        .map(|node| node.pod.clone())
        .collect();
    assert!(!sources.is_empty(), "{}", stage.complaint());
    sources.iter().for_each(|pod| stage.world.kill(pod));
    stage.world.breaks_off = 0;
    Ok(stage)
}

#[test]
fn new_shards_whose_first_slots_were_half_moved_get_the_rest_or_give_them_back() -> Outcome {
    for (seed, masters) in [(21, 5), (22, 3), (23, 4), (24, 6)] {
        let mut stage = half_moved(seed)?;
        scaled(&mut stage, masters, 1).map_err(|error| format!("seed {seed}: {error}"))?;
        assert!(stage.world.nodes().all(|node| node.moves.is_empty()), "seed {seed}");
    }
    Ok(())
}
