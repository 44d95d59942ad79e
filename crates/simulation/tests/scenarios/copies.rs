//! Copies of different age: who may take over from a primary that is away.

use crate::support::{Outcome, ends_whole, formed, golden, primary_of, replica_of};
use api::conditions::Reason;
use simulation::{Setup, Stage};
use topology::Role;

/// A primary, its replica that could not follow any more for ninety seconds, and keys that only the primary has.
fn with_an_old_copy(seed: u64) -> Result<(Stage, String, String), String> {
    let mut stage = formed(seed, &[Setup { kubernetes_nodes: 6, ..Setup::default() }])?;
    let primary = primary_of(&stage, 0);
    let replica = replica_of(&stage, &primary);
    stage.note("a replica cannot follow any more");
    stage.world.unlinked.insert(replica.clone());
    stage.run(1_000)?;
    assert!((1_000..1_200).all(|key| stage.world.write("cache", key)));
    stage.run(90_000)?;
    Ok((stage, primary, replica))
}

fn cut_off(stage: &mut Stage, pod: &str) {
    stage.note("the primary's node is cut off");
    let node = stage.world.pods.get(pod).map(|pod| pod.kubernetes_node.clone());
    stage.world.cut.extend(node);
}

#[test]
fn a_replica_that_stopped_following_long_before_waits_for_the_primary_that_has_more() -> Outcome {
    let (mut stage, primary, replica) = with_an_old_copy(60)?;
    cut_off(&mut stage, &primary);
    stage.run(60_000)?;
    let older = stage.operators[0].decision.findings.iter().find(|finding| finding.reason == Reason::OnlyOlderCopy);
    assert!(older.is_some_and(|finding| finding.message.contains(&replica)), "{}", stage.complaint());
    assert_eq!(stage.world.node(&replica).map(|node| node.role), Some(Role::Replica));
    stage.note("the primary's node is back, and the replica can follow");
    stage.world.cut.clear();
    stage.world.unlinked.clear();
    ends_whole(&mut stage, 60_000)?;
    golden(&stage, "old-copy")
}

#[test]
fn an_operator_that_did_not_see_the_end_leaves_an_old_copy_to_the_clusters_own_election() -> Outcome {
    let (mut stage, primary, replica) = with_an_old_copy(61)?;
    cut_off(&mut stage, &primary);
    stage.kill_operators(1_000);
    stage.run(60_000)?;
    assert_eq!(stage.world.node(&replica).map(|node| node.role), Some(Role::Replica));
    assert!(stage.operators[0].blocked(), "{}", stage.complaint());
    stage.world.cut.clear();
    stage.world.unlinked.clear();
    ends_whole(&mut stage, 60_000)
}

#[test]
fn a_killed_process_whose_replica_is_too_old_goes_on_with_its_own_data() -> Outcome {
    let (mut stage, primary, _) = with_an_old_copy(62)?;
    let acknowledged = stage.world.acknowledged.clone();
    stage.world.kill(&primary);
    stage.world.acknowledged = acknowledged;
    stage.world.unlinked.clear();
    ends_whole(&mut stage, 60_000)
}

/// A primary that took writes after its replica lost the link, so long ago. What it acknowledged is not excused.
fn killed_with_an_old_copy(seed: u64, setup: Setup, age: u64) -> Result<(Stage, String), String> {
    let mut stage = formed(seed, &[setup])?;
    let primary = primary_of(&stage, 0);
    let replica = replica_of(&stage, &primary);
    stage.world.unlinked.insert(replica);
    stage.run(age)?;
    assert!((1_000..1_200).all(|key| stage.world.write("cache", key)));
    // The sidecars look once a second.
    stage.run(1_500)?;
    let acknowledged = stage.world.acknowledged.clone();
    stage.world.kill(&primary);
    stage.world.unlinked.clear();
    stage.world.acknowledged = acknowledged;
    Ok((stage, primary))
}

#[test]
fn an_old_copy_is_not_forced_over_a_primary_that_starts_again_on_its_empty_dir() -> Outcome {
    for seed in 0..5 {
        let setup = Setup { persistent: false, ..Setup::default() };
        let (mut stage, primary) = killed_with_an_old_copy(seed, setup, 30_000)?;
        ends_whole(&mut stage, 60_000).map_err(|error| format!("seed {seed}: {error}"))?;
        assert_eq!(stage.world.node(&primary).map(|node| node.role), Some(Role::Primary));
    }
    Ok(())
}

#[test]
fn an_old_copy_takes_over_when_the_primary_starts_again_with_nothing() -> Outcome {
    let setup = Setup { persistent: false, saves: false, ..Setup::default() };
    let (mut stage, primary) = killed_with_an_old_copy(6, setup, 30_000)?;
    stage.world.forgive();
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(stage.world.node(&primary).map(|node| node.role), Some(Role::Replica), "{}", stage.complaint());
    Ok(())
}

#[test]
fn a_replica_that_lost_its_link_seconds_before_the_end_does_not_take_over_from_a_primary_that_has_more() -> Outcome {
    for (seed, persistent) in [(0, true), (1, true), (2, false), (3, false)] {
        let setup = Setup { persistent, ..Setup::default() };
        let (mut stage, primary) = killed_with_an_old_copy(seed, setup, 3_500)?;
        ends_whole(&mut stage, 60_000).map_err(|error| format!("seed {seed}: {error}"))?;
        assert_eq!(stage.world.node(&primary).map(|node| node.role), Some(Role::Primary));
    }
    Ok(())
}
