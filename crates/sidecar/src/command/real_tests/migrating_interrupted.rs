//! A migration key by key that ends in the middle: by its deadline, by the end of the target, by the end of the source.

use super::{
    cluster::{Node, eventually, failover, formed, formed_of, migrate},
    keys::{count, fill, owns, patient},
    open_slots::{open, send},
};
use link::contract::{FailoverMode, answer::Outcome};
use std::time::Duration;
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

const SLOT: (u32, u32) = (5, 5);

#[tokio::test]
async fn a_command_whose_time_is_over_in_a_slot_is_continued_by_the_next() {
    let nodes = formed(ServerVersion::V8_1).await;
    let target = nodes[1].id().await;
    fill(&nodes[0], 5, 40_000).await;
    let (mut deadline, mut outcomes) = (Duration::from_millis(300), Vec::new());
    while !matches!(outcomes.last(), Some(Outcome::Done(_))) {
        outcomes.push(nodes[0].run_within(migrate(SLOT, &target, 0), deadline).await);
        deadline *= 2;
    }
    let late = |outcome: &Outcome| matches!(outcome, Outcome::Failed(failed) if failed.deadline_passed);
    assert!(outcomes.len() > 1 && outcomes[..outcomes.len() - 1].iter().all(late), "{outcomes:?}");
    assert_eq!((count(&nodes[0], 5).await, count(&nodes[1], 5).await), (0, 40_000));
}

async fn failed_migrates(node: &Node) -> u64 {
    let info = patient(node).await.info(&["commandstats"]).await.unwrap();
    let stats = info.text("cmdstat_migrate").unwrap_or_default();
    stats.split(',').find_map(|pair| pair.strip_prefix("failed_calls=")?.parse().ok()).unwrap_or_default()
}

/// It takes the keys when it runs again, and nobody hears so: they are on both ends then.
#[tokio::test]
async fn a_target_that_hangs_during_a_migrate_gets_the_same_keys_again() {
    let nodes = formed(ServerVersion::V8_1).await;
    let target = nodes[1].id().await;
    fill(&nodes[0], 5, 60_000).await;
    let hang = async {
        eventually("keys arrive", async || count(&nodes[1], 5).await > 0).await;
        nodes[1].server.freeze().unwrap();
        eventually("a MIGRATE is given up", async || failed_migrates(&nodes[0]).await > 0).await;
        nodes[1].server.thaw().unwrap();
    };
    let (done, ()) = tokio::join!(nodes[0].done(migrate(SLOT, &target, 0)), hang);
    assert_eq!(done.moved.unwrap().slots, 1);
    assert_eq!((count(&nodes[0], 5).await, count(&nodes[1], 5).await), (0, 60_000));
}

#[tokio::test]
async fn a_target_that_dies_in_the_middle_is_succeeded_and_nothing_is_lost() {
    for version in BOTH_VERSIONS {
        let mut nodes = formed(version).await;
        let target = nodes[1].id().await;
        fill(&nodes[0], 5, 100).await;
        open(&nodes).await;
        send(&nodes, &["0", "1", "2"]).await;
        eventually("the replica has them", async || count(&nodes[4], 5).await == 3).await;
        nodes[1].server.kill().unwrap();
        let outcome = nodes[0].run(migrate(SLOT, &target, 0)).await;
        assert!(matches!(&outcome, Outcome::Failed(failed) if failed.detail.contains("half moved")), "{outcome:?}");
        nodes[4].done(failover(FailoverMode::Force)).await;
        let successor = nodes[4].id().await;
        eventually("it is finished with the successor", async || {
            matches!(nodes[0].run(migrate(SLOT, &successor, 0)).await, Outcome::Done(_))
        })
        .await;
        assert!(owns(&nodes[4], 5).await);
        assert_eq!((count(&nodes[0], 5).await, count(&nodes[4], 5).await), (0, 100));
    }
}

#[tokio::test]
async fn a_source_that_is_killed_in_the_middle_goes_on_when_it_is_back() {
    for version in BOTH_VERSIONS {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let mut nodes = formed_of((0..3).map(|_| Node::start_with(version, &durable)).collect()).await;
        let target = nodes[1].id().await;
        fill(&nodes[0], 5, 100).await;
        open(&nodes).await;
        send(&nodes, &["0", "1", "2"]).await;
        nodes[0].server.kill().unwrap();
        nodes[0].server.start_again().unwrap();
        eventually("it is finished", async || {
            matches!(nodes[0].run(migrate(SLOT, &target, 0)).await, Outcome::Done(_))
        })
        .await;
        assert_eq!((count(&nodes[0], 5).await, count(&nodes[1], 5).await), (0, 100));
        let moves = patient(&nodes[1]).await.cluster_nodes().await.unwrap().myself().unwrap().moves.clone();
        assert!(moves.is_empty(), "{moves:?}");
    }
}
