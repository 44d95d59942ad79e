//! Volumes that are emptied, exchanged or copied.

use crate::support::{Outcome, ends_whole, formed, golden, primary_of, replica_of};
use api::conditions::Reason;
use simulation::{Process, Setup, Stage};
use topology::Role;

#[test]
fn a_primary_with_an_emptied_volume_rejoins_as_a_replica_and_its_old_id_is_forgotten() -> Outcome {
    let mut stage = formed(30, &[Setup::default()])?;
    let (lost, keys) = (primary_of(&stage, 0), stage.world.acknowledged.len());
    stage.note("the primary's volume is emptied");
    stage.world.empty_volume(&lost);
    ends_whole(&mut stage, 120_000)?;
    assert_eq!(stage.world.node(&lost).map(|node| (node.role, node.peers.len())), Some((Role::Replica, 5)));
    assert_eq!(stage.world.acknowledged.len(), keys);
    golden(&stage, "volume-emptied")
}

#[test]
fn a_replica_with_an_emptied_volume_rejoins_its_shard() -> Outcome {
    let mut stage = formed(31, &[Setup::default()])?;
    let primary = primary_of(&stage, 1);
    let lost = replica_of(&stage, &primary);
    stage.world.empty_volume(&lost);
    ends_whole(&mut stage, 120_000)?;
    assert_eq!(replica_of(&stage, &primary), lost);
    assert!(stage.world.nodes().all(|node| node.peers.len() == 5), "{}", stage.complaint());
    Ok(())
}

#[test]
fn a_shard_that_lost_both_volumes_waits_for_a_human() -> Outcome {
    let mut stage = formed(32, &[Setup::default()])?;
    let primary = primary_of(&stage, 2);
    let replica = replica_of(&stage, &primary);
    stage.note("both volumes of a shard are emptied");
    stage.world.empty_volume(&primary);
    stage.world.empty_volume(&replica);
    stage.run(120_000)?;
    assert!(stage.operators[0].blocked());
    let lost = stage.operators[0].decision.findings.iter().find(|finding| finding.reason == Reason::ShardLost);
    assert!(lost.is_some_and(|finding| finding.message.contains("restore")), "{}", stage.complaint());
    golden(&stage, "shard-lost")
}

#[test]
fn a_cache_that_lost_a_whole_shard_gets_an_empty_one_in_its_place() -> Outcome {
    let mut stage = formed(33, &[Setup { persistent: false, ..Setup::default() }])?;
    let primary = primary_of(&stage, 2);
    let replica = replica_of(&stage, &primary);
    stage.note("both pods of a shard without volumes are deleted");
    stage.world.excuse(&[&primary, &replica]);
    stage.world.replace(&primary, 2_000);
    stage.world.replace(&replica, 2_000);
    ends_whole(&mut stage, 180_000)?;
    golden(&stage, "shard-lost-without-volume")
}

#[test]
fn a_cache_that_lost_everything_is_formed_again() -> Outcome {
    let mut stage = formed(34, &[Setup { persistent: false, ..Setup::default() }])?;
    stage.note("all pods without volumes are deleted");
    stage.world.acknowledged.clear();
    let pods: Vec<String> = stage.world.pods.keys().cloned().collect();
    pods.iter().for_each(|pod| stage.world.replace(pod, 1_000));
    ends_whole(&mut stage, 60_000)?;
    golden(&stage, "everything-lost-without-volume")
}

#[test]
fn a_cluster_whose_volumes_are_all_empty_waits_for_them_and_is_not_formed_anew() -> Outcome {
    let mut stage = formed(37, &[Setup::default()])?;
    let (pods, keys) = (stage.world.pods.clone(), stage.world.acknowledged.clone());
    pods.keys().for_each(|pod| stage.world.kill(pod));
    let volumes: Vec<_> = stage.world.pods.iter().map(|(name, pod)| (name.clone(), pod.disk.clone())).collect();
    stage.note("every pod comes back with an empty volume");
    pods.keys().for_each(|pod| stage.world.empty_volume(pod));
    stage.run(120_000)?;
    let lost = stage.operators[0].decision.findings.iter().find(|finding| finding.reason == Reason::ShardLost);
    assert!(lost.is_some_and(|finding| finding.message.contains("volumes back")), "{}", stage.complaint());
    assert!(stage.world.nodes().all(|node| node.slots.is_empty()));
    stage.note("every pod gets its own volume back");
    for (name, disk) in volumes {
        stage.world.replace(&name, 1_000);
        stage.world.pods.get_mut(&name).unwrap().disk = disk;
    }
    stage.world.acknowledged = keys;
    ends_whole(&mut stage, 60_000)?;
    golden(&stage, "volumes-all-empty")
}

#[test]
fn volumes_that_are_emptied_before_the_cluster_was_ever_formed_do_not_keep_it_from_being_formed() -> Outcome {
    let mut stage = Stage::new(38, &[Setup::default()]);
    stage.run(150)?;
    assert!(stage.operators[0].durable.shards.is_empty(), "it is being formed");
    let pods: Vec<String> = stage.world.pods.keys().cloned().collect();
    pods.iter().for_each(|pod| stage.world.empty_volume(pod));
    ends_whole(&mut stage, 60_000)
}

#[test]
fn a_volume_of_another_cluster_is_never_met() -> Outcome {
    let other = Setup { name: "other", ..Setup::default() };
    let mut stage = formed(35, &[Setup::default(), other])?;
    let victim = replica_of(&stage, &primary_of(&stage, 0));
    stage.note("a replica gets the volume of another cluster's primary");
    stage.world.kill("other-0");
    let mut disk = stage.world.pods["other-0"].disk.clone();
    // The copy announces itself under the name of the pod it now runs in.
    if let Some(node) = disk.node.as_mut() {
        node.peers.clear();
    }
    stage.world.empty_volume(&victim);
    stage.world.pods.get_mut(&victim).unwrap().disk = disk;
    stage.run(60_000)?;
    let operator = &stage.operators[0];
    assert!(
        operator.decision.findings.iter().any(|finding| finding.reason == Reason::ForeignNode),
        "{}",
        stage.complaint()
    );
    golden(&stage, "foreign-volume")
}

#[test]
fn a_copy_of_a_volume_is_never_met() -> Outcome {
    let mut stage = formed(36, &[Setup { replicas: 2, ..Setup::default() }])?;
    let (one, two) = (replica_of(&stage, &primary_of(&stage, 0)), replica_of(&stage, &primary_of(&stage, 1)));
    stage.world.kill(&one);
    let disk = stage.world.pods[&one].disk.clone();
    stage.world.pods.get_mut(&one).unwrap().process = Process::Starting(stage.world.now + 500);
    stage.world.empty_volume(&two);
    stage.world.pods.get_mut(&two).unwrap().disk = disk;
    stage.run(60_000)?;
    let operator = &stage.operators[0];
    assert!(
        operator.decision.findings.iter().any(|finding| finding.reason == Reason::DuplicateNode),
        "{}",
        stage.complaint()
    );
    Ok(())
}
