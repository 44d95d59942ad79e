//! Forming a cluster, undisturbed and disturbed.

use crate::support::{Outcome, ends_whole, golden};
use simulation::{Faults, Process, Setup, Stage};

#[test]
fn six_new_nodes_form_a_cluster_within_a_second() -> Outcome {
    let mut stage = Stage::new(1, &[Setup::default()]);
    let took = stage.until_healthy(60_000)?;
    assert!(took <= 1_000, "{took} ms");
    stage.stays_still(10_000)?;
    golden(&stage, "form")
}

#[test]
fn over_three_zones_no_replica_shares_a_zone_with_its_primary() -> Outcome {
    let mut stage = Stage::new(2, &[Setup { zones: 3, kubernetes_nodes: 6, ..Setup::default() }]);
    ends_whole(&mut stage, 60_000)?;
    let zone = |pod: &str| stage.world.pods[pod].zone.clone();
    for shard in &stage.operators[0].durable.shards {
        assert_ne!(zone(shard.nodes[0].pod.as_str()), zone(shard.nodes[1].pod.as_str()));
    }
    golden(&stage, "form-zones")
}

#[test]
fn an_operator_killed_after_any_step_is_succeeded_by_one_that_finishes() -> Outcome {
    for seed in 0..5 {
        for step in 1.. {
            let mut stage = Stage::new(seed, &[Setup::default()]);
            stage.operators[0].killed_after = Some(step);
            ends_whole(&mut stage, 60_000).map_err(|error| format!("seed {seed}, killed after {step}: {error}"))?;
            if stage.operators[0].acted < step {
                break;
            }
        }
    }
    Ok(())
}

#[test]
fn lost_and_late_words_only_delay_a_formation() -> Outcome {
    for seed in 0..20 {
        let mut stage = Stage::new(seed, &[Setup::default()]);
        let faults = Faults { lost_command: 5, lost_answer: 5, late_heartbeat: 3, delay: 700, stale_view: 4 };
        stage.operators[0].line.faults = faults;
        stage.run(20_000).map_err(|error| format!("seed {seed}: {error}"))?;
        stage.operators[0].line.faults = Faults::default();
        ends_whole(&mut stage, 90_000).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}

/// All places are as good as each other, so nothing but the plan itself keeps two replicas from the same primary.
#[test]
fn on_one_node_every_primary_gets_its_replica_though_commands_are_late() -> Outcome {
    for seed in 0..50 {
        let mut stage = Stage::new(seed, &[Setup { kubernetes_nodes: 1, ..Setup::default() }]);
        stage.operators[0].line.faults = Faults { delay: 700, ..Faults::default() };
        ends_whole(&mut stage, 30_000).map_err(|error| format!("seed {seed}: {error}"))?;
        let replicated = stage.operators[0].transcript.iter().filter(|line| line.contains("replicate ")).count();
        assert_eq!(replicated, 3, "seed {seed}: {}", stage.operators[0].transcript.join("\n"));
    }
    Ok(())
}

#[test]
fn a_replica_that_follows_another_primary_than_planned_is_moved_before_the_cluster_counts_as_formed() -> Outcome {
    let mut stage = Stage::new(6, &[Setup::default()]);
    while stage.world.nodes().filter(|node| node.primary.is_some()).count() < 3 {
        stage.tick()?;
    }
    assert!(stage.operators[0].durable.shards.is_empty(), "it is still being formed");
    let follows = |stage: &Stage, index: usize| {
        let replica = stage.world.nodes().filter(|node| node.primary.is_some()).nth(index);
        replica.map(|node| (node.pod.clone(), node.primary.clone().unwrap())).unwrap()
    };
    let ((pod, _), (_, other)) = (follows(&stage, 0), follows(&stage, 1));
    stage.world.execute(&pod, &planner::nodes::Action::Replicate(other));
    ends_whole(&mut stage, 30_000)?;
    assert!(stage.operators[0].durable.shards.iter().all(|shard| shard.nodes.len() == 2));
    Ok(())
}

#[test]
fn shards_added_to_the_spec_before_slots_are_given_away_are_formed() -> Outcome {
    let setup = Setup { masters: 4, ..Setup::default() };
    let mut stage = Stage::new(3, &[Setup::default()]);
    stage.world.pods.get_mut("cache-5").unwrap().process = Process::Starting(3_000);
    stage.run(1_000)?;
    stage.note("masterCount becomes 4");
    stage.operators[0].target.masters = 4;
    (6..8).for_each(|ordinal| stage.world.add_pod(&setup, ordinal));
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(stage.operators[0].durable.shards.len(), 4);
    golden(&stage, "form-spec-changed")
}

#[test]
fn replicas_added_to_the_spec_in_the_middle_of_a_formation_join() -> Outcome {
    let setup = Setup { replicas: 2, ..Setup::default() };
    for moment in (50..700).step_by(100) {
        let mut stage = Stage::new(4, &[Setup::default()]);
        stage.run(moment)?;
        stage.operators[0].target.replicas_per_master = 2;
        (6..9).for_each(|ordinal| stage.world.add_pod(&setup, ordinal));
        ends_whole(&mut stage, 60_000).map_err(|error| format!("changed at {moment}: {error}"))?;
        assert!(stage.operators[0].durable.shards.iter().all(|shard| shard.nodes.len() == 3));
    }
    Ok(())
}

#[test]
fn shards_added_to_the_spec_in_the_middle_of_a_formation_leave_it_whole_or_say_why() -> Outcome {
    let setup = Setup { masters: 4, ..Setup::default() };
    for moment in (50..700).step_by(100) {
        let mut stage = Stage::new(5, &[Setup::default()]);
        stage.run(moment)?;
        stage.operators[0].target.masters = 4;
        (6..8).for_each(|ordinal| stage.world.add_pod(&setup, ordinal));
        stage.run(60_000)?;
        let operator = &stage.operators[0];
        let told = operator.decision.findings.iter().any(|finding| finding.message.contains("masterCount is 4"));
        assert!(operator.healthy() || told, "changed at {moment}: {}", stage.complaint());
        stage.stays_still(10_000).map_err(|error| format!("changed at {moment}: {error}"))?;
    }
    Ok(())
}

#[test]
fn a_pod_that_never_starts_is_waited_for_by_name_and_nothing_is_begun() -> Outcome {
    let mut stage = Stage::new(6, &[Setup::default()]);
    stage.world.pods.get_mut("cache-4").unwrap().process = Process::Broken;
    stage.run(30_000)?;
    assert!(stage.operators[0].decision.plan.iter().any(|line| line.contains("not yet: cache-4")));
    assert_eq!(stage.operators[0].acted, 0);
    stage.note("cache-4 starts");
    stage.world.pods.get_mut("cache-4").unwrap().process = Process::Starting(0);
    ends_whole(&mut stage, 60_000)?;
    golden(&stage, "form-pod-late")
}

#[test]
fn a_pod_that_is_replaced_in_the_middle_of_a_formation_does_not_stop_it() -> Outcome {
    for persistent in [true, false] {
        for moment in (50..700).step_by(100) {
            for pod in ["cache-0", "cache-5"] {
                let mut stage = Stage::new(7, &[Setup { persistent, ..Setup::default() }]);
                stage.run(moment)?;
                stage.world.replace(pod, 500);
                ends_whole(&mut stage, 120_000)
                    .map_err(|error| format!("{pod} replaced at {moment}, volumes {persistent}: {error}"))?;
            }
        }
    }
    Ok(())
}
