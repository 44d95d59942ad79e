//! Pods that come back with other addresses, their own or another cluster's.

use crate::support::{Outcome, ends_whole, formed, golden};
use simulation::{Faults, Setup, Stage};

fn roles(stage: &Stage) -> Vec<String> {
    stage.world.primaries()
}

#[test]
fn all_pods_restarted_with_new_addresses_keep_their_roles_and_their_data() -> Outcome {
    for (outage, spread) in [(1_000, 0), (2_000, 3_000), (15_000, 2_000)] {
        for seed in 20..24 {
            let mut stage = formed(seed, &[Setup::default()])?;
            let (before, keys) = (roles(&stage), stage.world.acknowledged.clone());
            stage.note("all pods are deleted");
            let pods: Vec<String> = stage.world.pods.keys().cloned().collect();
            for pod in &pods {
                let after = outage + if spread == 0 { 0 } else { stage.world.chance.u64(..spread) };
                stage.world.replace(pod, after);
            }
            stage.world.acknowledged = keys;
            ends_whole(&mut stage, 120_000).map_err(|error| format!("outage {outage}, seed {seed}: {error}"))?;
            assert_eq!(roles(&stage), before, "outage {outage}, seed {seed}: {}", stage.complaint());
            if outage == 15_000 && seed == 20 {
                golden(&stage, "all-restarted")?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_restart_of_everything_heals_with_a_forgetful_operator_and_lost_words() -> Outcome {
    for seed in 0..10 {
        let mut stage = formed(seed, &[Setup::default()])?;
        let keys = stage.world.acknowledged.clone();
        let pods: Vec<String> = stage.world.pods.keys().cloned().collect();
        pods.iter().for_each(|pod| stage.world.replace(pod, 1_000));
        stage.world.acknowledged = keys;
        stage.operators[0].killed_after = Some(stage.operators[0].acted + 1 + seed as usize % 5);
        stage.operators[0].line.faults =
            Faults { lost_command: 4, lost_answer: 4, late_heartbeat: 2, delay: 500, stale_view: 4 };
        stage.run(15_000).map_err(|error| format!("seed {seed}: {error}"))?;
        stage.operators[0].line.faults = Faults::default();
        ends_whole(&mut stage, 120_000).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}

#[test]
fn two_clusters_whose_addresses_were_swapped_never_merge() -> Outcome {
    for seed in 40..44 {
        let other = Setup { name: "other", ..Setup::default() };
        let mut stage = formed(seed, &[Setup::default(), other])?;
        let keys = stage.world.acknowledged.clone();
        stage.note("all pods of two clusters are deleted and get each other's addresses");
        let addresses: Vec<(String, String)> =
            stage.world.pods.values().map(|pod| (pod.name.clone(), pod.ip.clone())).collect();
        for (pod, _) in &addresses {
            let after = 1_000 + stage.world.chance.u64(..4_000);
            stage.world.replace(pod, after);
        }
        for (index, (pod, _)) in addresses.iter().enumerate() {
            let taken = addresses[(index + addresses.len() / 2) % addresses.len()].1.clone();
            stage.world.pods.get_mut(pod).unwrap().ip = taken;
        }
        stage.world.acknowledged = keys;
        ends_whole(&mut stage, 120_000).map_err(|error| format!("seed {seed}: {error}"))?;
        if seed == 40 {
            golden(&stage, "addresses-swapped")?;
        }
    }
    Ok(())
}

#[test]
fn a_single_pod_with_a_new_address_needs_nobody() -> Outcome {
    let mut stage = formed(21, &[Setup::default()])?;
    stage.world.replace("cache-5", 1_000);
    ends_whole(&mut stage, 60_000)
}
