//! Processes, pods and nodes that die.

use crate::support::{Outcome, ends_whole, formed, golden, primary_of, replica_of};
use api::conditions::Reason;
use simulation::{Faults, Setup, Stage};
use topology::Role;

#[test]
fn a_killed_primary_process_is_succeeded_within_half_a_second_and_loses_nothing() -> Outcome {
    let mut stage = formed(10, &[Setup::default()])?;
    let (dead, heir) = (primary_of(&stage, 0), replica_of(&stage, &primary_of(&stage, 0)));
    stage.note("the primary's process is killed");
    stage.world.kill(&dead);
    stage.run(500)?;
    assert_eq!(stage.world.node(&heir).map(|node| node.role), Some(Role::Primary), "{}", stage.complaint());
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(stage.world.node(&dead).map(|node| node.role), Some(Role::Replica));
    golden(&stage, "primary-killed")
}

#[test]
fn a_killed_primary_whose_data_is_gone_never_comes_back_empty() -> Outcome {
    for seed in 0..5 {
        let mut stage = formed(seed, &[Setup { persistent: false, saves: false, ..Setup::default() }])?;
        let keys = stage.world.acknowledged.len();
        let dead = primary_of(&stage, 1);
        stage.note("the primary's process is killed; its data is gone");
        stage.world.kill(&dead);
        ends_whole(&mut stage, 60_000)?;
        assert_eq!(stage.world.acknowledged.len(), keys);
        if seed == 0 {
            golden(&stage, "primary-killed-without-volume")?;
        }
    }
    Ok(())
}

#[test]
fn an_empty_dir_outlives_the_containers_of_its_pod_and_ends_with_the_pod() -> Outcome {
    let mut stage = formed(18, &[Setup { persistent: false, replicas: 0, ..Setup::default() }])?;
    let (killed, replaced) = (primary_of(&stage, 0), primary_of(&stage, 1));
    let keys = |stage: &Stage, pod: &str| stage.world.node(pod).map(|node| node.keys.len());
    let before = keys(&stage, &killed);
    stage.world.kill(&killed);
    stage.world.replace(&replaced, 300);
    stage.run(1_000)?;
    assert!(before > Some(0));
    assert_eq!((keys(&stage, &killed), keys(&stage, &replaced)), (before, Some(0)));
    Ok(())
}

#[test]
fn with_the_operator_gone_the_cluster_fails_over_alone() -> Outcome {
    let mut stage = formed(11, &[Setup { persistent: false, saves: false, ..Setup::default() }])?;
    let dead = primary_of(&stage, 2);
    let mut operator = stage.operators.remove(0);
    stage.world.kill(&dead);
    stage.run(20_000)?;
    assert_eq!(stage.world.node(&dead).map(|node| node.role), Some(Role::Replica));
    operator.kill(&mut stage.world, None, 0);
    stage.operators.push(operator);
    ends_whole(&mut stage, 60_000)
}

#[test]
fn a_deleted_primary_pod_is_succeeded_and_comes_back_as_a_replica() -> Outcome {
    for persistent in [true, false] {
        let mut stage = formed(12, &[Setup { persistent, ..Setup::default() }])?;
        let dead = primary_of(&stage, 0);
        stage.note("the primary's pod is deleted");
        stage.world.replace(&dead, 2_000);
        ends_whole(&mut stage, 60_000)?;
        assert_eq!(stage.world.node(&dead).map(|node| node.role), Some(Role::Replica), "{}", stage.complaint());
        golden(&stage, if persistent { "pod-deleted" } else { "pod-deleted-without-volume" })?;
    }
    Ok(())
}

#[test]
fn the_replica_with_more_of_the_data_is_promoted() -> Outcome {
    let mut stage = formed(13, &[Setup { replicas: 2, kubernetes_nodes: 9, ..Setup::default() }])?;
    let dead = primary_of(&stage, 0);
    let lagging = replica_of(&stage, &dead);
    stage.world.cut.insert(stage.world.pods[&lagging].kubernetes_node.clone());
    assert!((1_000..1_200).all(|key| stage.world.write("cache", key)));
    stage.run(500)?;
    stage.world.cut.clear();
    stage.world.kill(&dead);
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(stage.world.node(&lagging).map(|node| node.role), Some(Role::Replica));
    Ok(())
}

#[test]
fn a_lost_kubernetes_node_is_survived_and_its_pods_heal_when_it_is_back() -> Outcome {
    for outage in [3_000, 20_000, 120_000] {
        let mut stage = formed(14, &[Setup::default()])?;
        stage.note("node-0 is cut off");
        stage.world.excuse(&["cache-0", "cache-3"]);
        stage.world.cut.insert("node-0".to_owned());
        stage.run(outage)?;
        stage.note("node-0 is back");
        stage.world.cut.clear();
        ends_whole(&mut stage, 120_000).map_err(|error| format!("outage of {outage}: {error}"))?;
        if outage == 20_000 {
            golden(&stage, "node-lost")?;
        }
    }
    Ok(())
}

#[test]
fn without_a_majority_nothing_is_taken_over_and_the_reason_says_what_to_do() -> Outcome {
    let mut stage = formed(15, &[Setup { persistent: false, saves: false, kubernetes_nodes: 6, ..Setup::default() }])?;
    let dead: Vec<String> = stage.world.primaries().into_iter().take(2).collect();
    stage.note("two of three primaries are killed; their data is gone");
    dead.iter().for_each(|pod| stage.world.kill(pod));
    stage.run(60_000)?;
    let degraded = stage.operators[0].decision.findings.iter().find(|finding| finding.reason == Reason::MajorityLost);
    assert!(degraded.is_some_and(|finding| finding.message.contains("TAKEOVER")), "{}", stage.complaint());
    golden(&stage, "majority-lost")
}

#[test]
fn two_of_three_primaries_killed_with_their_data_on_disk_come_back_by_themselves() -> Outcome {
    let mut stage = formed(16, &[Setup { kubernetes_nodes: 6, ..Setup::default() }])?;
    let dead: Vec<String> = stage.world.primaries().into_iter().take(2).collect();
    dead.iter().for_each(|pod| stage.world.kill(pod));
    ends_whole(&mut stage, 60_000)
}

#[test]
fn the_operator_may_die_after_any_step_of_a_failover() -> Outcome {
    for (persistent, saves) in [(true, true), (false, true), (false, false)] {
        for step in 1..6 {
            let mut stage: Stage = formed(17, &[Setup { persistent, saves, ..Setup::default() }])?;
            stage.operators[0].killed_after = Some(stage.operators[0].acted + step);
            stage.operators[0].line.faults = Faults { lost_answer: 3, delay: 300, ..Faults::default() };
            let dead = primary_of(&stage, 0);
            stage.world.kill(&dead);
            stage.run(10_000)?;
            stage.operators[0].line.faults = Faults::default();
            ends_whole(&mut stage, 60_000).map_err(|error| format!("step {step}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_handed_over_shard_never_leaves_the_record_whatever_the_age_of_the_words() -> Outcome {
    for seed in 0..12 {
        let mut stage = formed(seed, &[Setup { persistent: seed % 2 == 0, ..Setup::default() }])?;
        let leaving = primary_of(&stage, 0);
        stage.operators[0].line.faults = Faults { late_heartbeat: 2, delay: 400, stale_view: 3, ..Faults::default() };
        assert!(stage.world.hand_over(&leaving));
        stage.run(50 * seed)?;
        stage.world.replace(&leaving, 800);
        for _ in 0..200 {
            stage.tick()?;
            let operator = &stage.operators[0];
            let foreign = operator.decision.findings.iter().any(|finding| finding.reason == Reason::ForeignNode);
            assert!(operator.durable.shards.len() == 3 && !foreign, "seed {seed}: {}", stage.complaint());
        }
        stage.operators[0].line.faults = Faults::default();
        ends_whole(&mut stage, 60_000).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}

fn events<'a>(stage: &'a Stage, reason: &str) -> Vec<&'a str> {
    let told = stage.operators.iter().flat_map(|operator| &operator.transcript);
    told.filter(|line| line.ends_with(&format!("event {reason}"))).map(String::as_str).collect()
}

#[test]
fn a_hand_over_that_won_is_told_as_no_failover_and_is_healed_once() -> Outcome {
    for seed in 0..16 {
        let mut stage = formed(seed, &[Setup { persistent: seed % 2 == 0, ..Setup::default() }])?;
        let leaving = primary_of(&stage, 0);
        // What the others say of themselves comes later than that its process is gone.
        stage.operators[0].line.faults = Faults { late_heartbeat: 1, ..Faults::default() };
        assert!(stage.world.hand_over(&leaving));
        stage.world.kill(&leaving);
        stage.run(50 * (seed + 1))?;
        stage.operators[0].line.faults = Faults::default();
        stage.run(200)?;
        stage.world.replace(&leaving, 2_000);
        ends_whole(&mut stage, 60_000)?;
        let (failovers, healed) = (events(&stage, "FailoverStarted"), events(&stage, "Healed"));
        assert!(failovers.is_empty() && healed.len() <= 1, "seed {seed}: {}", stage.operators[0].transcript.join("\n"));
    }
    Ok(())
}

#[test]
fn a_failover_is_told_with_its_end() -> Outcome {
    for seed in 0..16 {
        let mut stage = formed(seed, &[Setup { saves: false, ..Setup::default() }])?;
        let dead = primary_of(&stage, 0);
        stage.world.kill(&dead);
        ends_whole(&mut stage, 60_000)?;
        let told = [events(&stage, "FailoverStarted").len(), events(&stage, "FailoverDone").len()];
        assert_eq!(told, [1, 1], "seed {seed}: {}", stage.operators[0].transcript.join("\n"));
    }
    Ok(())
}

/// A shard whose replica lags and is then restarted, and whose primary has been away for so long since.
fn restarted_too(seed: u64, away: u64) -> Result<Stage, String> {
    let mut stage = formed(seed, &[Setup { kubernetes_nodes: 6, ..Setup::default() }])?;
    let primary = primary_of(&stage, 0);
    let replica = replica_of(&stage, &primary);
    let place = stage.world.pods.get(&replica).map(|pod| pod.kubernetes_node.clone());
    stage.world.cut.extend(place);
    stage.run(100)?;
    assert!((1_000..1_200).all(|key| stage.world.write("cache", key)));
    let acknowledged = stage.world.acknowledged.clone();
    stage.world.replace(&replica, 1_000);
    stage.world.replace(&primary, away);
    stage.world.cut.clear();
    stage.world.acknowledged = acknowledged;
    Ok(stage)
}

#[test]
fn a_replica_that_was_restarted_too_does_not_take_over_from_a_primary_that_has_more_on_its_disk() -> Outcome {
    for (seed, away) in [(0, 3_600), (1, 3_600), (2, 3_600), (3, 20_000), (4, 120_000)] {
        let mut stage = restarted_too(seed, away)?;
        ends_whole(&mut stage, 180_000).map_err(|error| format!("away for {away}: {error}"))?;
    }
    Ok(())
}

#[test]
fn while_only_an_older_copy_is_left_the_reason_says_what_to_do() -> Outcome {
    let mut stage = restarted_too(5, 1_000_000)?;
    stage.run(60_000)?;
    let older = stage.operators[0].decision.findings.iter().find(|finding| finding.reason == Reason::OnlyOlderCopy);
    assert!(older.is_some_and(|finding| finding.message.contains("CLUSTER FAILOVER FORCE")), "{}", stage.complaint());
    Ok(())
}
