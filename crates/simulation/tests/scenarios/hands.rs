//! What users do by hand.

use crate::support::{Outcome, ends_whole, formed, golden, primary_of, replica_of};
use simulation::{Setup, Stage};

#[test]
fn a_replica_that_was_reset_joins_again() -> Outcome {
    for hard in [false, true] {
        let mut stage = formed(50, &[Setup::default()])?;
        let victim = replica_of(&stage, &primary_of(&stage, 0));
        stage.note("CLUSTER RESET on a replica");
        assert!(stage.world.reset(&victim, hard));
        ends_whole(&mut stage, 120_000).map_err(|error| format!("hard {hard}: {error}"))?;
        golden(&stage, if hard { "replica-reset-hard" } else { "replica-reset-soft" })?;
    }
    Ok(())
}

#[test]
fn an_empty_primary_that_was_reset_gets_its_slots_back() -> Outcome {
    for hard in [false, true] {
        let mut stage = Stage::new(51, &[Setup::default()]);
        stage.until_healthy(60_000)?;
        let victim = primary_of(&stage, 0);
        stage.note("CLUSTER RESET on an empty primary");
        assert!(stage.world.reset(&victim, hard));
        ends_whole(&mut stage, 120_000).map_err(|error| format!("hard {hard}: {error}"))?;
        golden(&stage, if hard { "primary-reset-hard" } else { "primary-reset-soft" })?;
    }
    Ok(())
}

#[test]
fn a_forgotten_node_is_met_again_when_valkey_allows_it() -> Outcome {
    for victim in ["cache-0", "cache-4"] {
        let mut stage = formed(52, &[Setup::default()])?;
        stage.note("CLUSTER FORGET");
        stage.world.forget_by_hand("cache-1", victim);
        ends_whole(&mut stage, 180_000).map_err(|error| format!("{victim}: {error}"))?;
    }
    Ok(())
}

#[test]
fn flushall_is_the_users_own_business() -> Outcome {
    let mut stage = formed(53, &[Setup::default()])?;
    let acted = stage.operators[0].acted;
    let primary = primary_of(&stage, 0);
    stage.world.flush(&primary);
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(stage.operators[0].acted, acted);
    Ok(())
}

#[test]
fn more_replicas_join_and_then_another_shard() -> Outcome {
    let mut stage = formed(54, &[Setup::default()])?;
    let setup = Setup { replicas: 2, ..Setup::default() };
    stage.note("replicasPerMaster becomes 2");
    stage.operators[0].target.replicas_per_master = 2;
    (6..9).for_each(|ordinal| stage.world.add_pod(&setup, ordinal));
    ends_whole(&mut stage, 60_000)?;
    assert!(stage.operators[0].durable.shards.iter().all(|shard| shard.nodes.len() == 3));
    stage.note("masterCount becomes 4");
    stage.operators[0].target.masters = 4;
    (9..12).for_each(|ordinal| stage.world.add_pod(&setup, ordinal));
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(stage.operators[0].durable.shards.len(), 4);
    golden(&stage, "scaled-by-the-spec")
}
