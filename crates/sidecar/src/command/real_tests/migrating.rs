//! Slots that go from one primary to another, both ways.

use super::{
    cluster::{DEADLINE, Node, eventually, failover, formed, migrate},
    keys::{FIELDS, LIBRARY, count, fill, key, make_all, owns, patient, picture, value},
    open_slots::moves as moves_of,
};
use futures::future::join_all;
use link::contract::{CancelMigration, FailoverMode, RefusedReason, answer::Outcome, command::Action};
use load::{Load, Options, Report};
use std::time::{Duration, Instant};
use valkey::{
    SlotOwner,
    testing::{BOTH_VERSIONS, ServerVersion},
};

async fn writer(nodes: &[Node]) -> Load {
    let seeds = nodes.iter().map(|node| format!("127.0.0.1:{}", node.server.port));
    let options = Options { rate: 600, timeout: Duration::from_secs(20), ..Options::to(seeds) };
    Load::start(options).await.unwrap()
}

fn assert_whole(report: &Report) {
    assert!(report.acknowledged > 0, "{report:?}");
    assert_eq!((report.lost, report.wrong, report.unverified), (0, 0, 0), "{:?}", report.samples);
}

async fn acknowledged(load: &Load, more: u64) {
    let wanted = load.progress().acknowledged + more;
    eventually("the writer goes on", async || load.progress().acknowledged >= wanted).await;
}

#[tokio::test]
async fn keys_of_every_kind_go_along_under_a_writer_and_the_second_time_nothing_is_left_to_do() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let target = nodes[1].id().await;
        make_all(&nodes[0], 7).await;
        patient(&nodes[0]).await.function_load(LIBRARY).await.unwrap();
        let before = picture(&nodes[0], 7).await;
        let load = writer(&nodes).await;
        acknowledged(&load, 300).await;
        let done = nodes[0].done(migrate((0, 99), &target, 0)).await;
        let way = if version == ServerVersion::V9_1 { "MIGRATESLOTS 0-99" } else { "key by key" };
        assert!(done.changed && done.did.contains(way) && done.did.contains("library shop"), "{done:?}");
        let mut moved = done.moved.unwrap();
        // A busy machine moves fewer in one portion.
        while moved.slots < 100 {
            let more = nodes[0].done(migrate((0, 99), &target, 0)).await.moved.unwrap();
            (moved.slots, moved.keys) = (moved.slots + more.slots, moved.keys + more.keys);
        }
        assert!(moved.slots == 100 && moved.keys >= 10, "{moved:?}");
        acknowledged(&load, 300).await;
        assert_eq!(picture(&nodes[1], 7).await, before);
        let again = nodes[0].done(migrate((0, 99), &target, 0)).await;
        assert!(!again.changed && again.moved.is_none(), "{again:?}");
        assert_whole(&load.stop().await.unwrap());
        in_one_place(&nodes, 7).await;
        let price = patient(&nodes[1]).await.call(&["FCALL", "price", "0"]).await.unwrap();
        assert_eq!(price.number(), Some(42));
    }
}

async fn in_one_place(nodes: &[Node], slot: u16) {
    assert!(owns(&nodes[1], slot).await && !owns(&nodes[0], slot).await);
    let fields = patient(&nodes[1]).await.call(&["HLEN", &key(slot, "big")]).await.unwrap();
    assert_eq!(fields.number(), u64::try_from(FIELDS).ok());
    let kept = count(&nodes[1], slot).await;
    eventually("the replica has the same", async || count(&nodes[4], slot).await == kept).await;
    for former in [&nodes[0], &nodes[3]] {
        eventually("it is gone where it was", async || count(former, slot).await == 0).await;
    }
}

/// What it saw coming as a replica, Valkey goes on listing without saying from where.
#[tokio::test]
async fn a_replica_that_took_over_a_shard_gives_on_what_that_shard_was_given() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let (first, target) = (nodes[0].id().await, nodes[1].id().await);
        fill(&nodes[0], 5, 20).await;
        nodes[0].done(migrate((0, 9), &target, 0)).await;
        eventually("the replica has it", async || count(&nodes[4], 5).await == 20).await;
        nodes[4].done(failover(FailoverMode::Coordinated)).await;
        eventually("it is the owner", async || owns(&nodes[4], 5).await).await;
        let back =
            async || matches!(nodes[4].run(migrate((0, 9), &first, 0)).await, Outcome::Done(done) if done.changed);
        eventually("it gives them back", back).await;
        assert_eq!((count(&nodes[0], 5).await, owns(&nodes[0], 5).await), (20, true));
    }
}

#[tokio::test]
async fn no_command_takes_on_more_keys_than_it_may_but_for_the_first_slot() {
    use ServerVersion::{V8_1, V9_1};
    for (version, elsewhere_open) in [(V8_1, false), (V9_1, false), (V9_1, true)] {
        let nodes = formed(version).await;
        let target = nodes[1].id().await;
        // Valkey moves no slots by itself while any is open.
        if elsewhere_open {
            let third = nodes[2].id().await.as_str().into();
            patient(&nodes[1]).await.cluster_set_slot(11_000, SlotOwner::Importing(&third)).await.unwrap();
        }
        for (slot, keys) in [(0, 50), (1, 5), (2, 5), (3, 1)] {
            fill(&nodes[0], slot, keys).await;
        }
        let mut portions = Vec::new();
        loop {
            let done = nodes[0].done(migrate((0, 3), &target, 10)).await;
            let Some(moved) = done.moved else { break };
            assert_eq!(done.did.contains("MIGRATESLOTS"), version == V9_1 && !elsewhere_open, "{done:?}");
            portions.push((moved.slots, moved.keys));
        }
        assert_eq!(portions, [(1, 50), (2, 10), (1, 1)]);
    }
}

#[tokio::test]
async fn what_makes_no_sense_or_is_not_safe_is_refused_and_nothing_is_moved() {
    let nodes = formed(ServerVersion::V9_1).await;
    let ids = [nodes[0].id().await, nodes[1].id().await, nodes[4].id().await];
    let [own, target, replica] = &ids;
    for (order, part) in [(migrate((0, 1), own, 0), "this node itself"), (migrate((0, 1), "", 0), "is empty")] {
        let (reason, detail) = nodes[0].refused(order).await;
        assert!(reason == RefusedReason::Invalid && detail.contains(part), "{detail}");
    }
    nodes[0].is_unsafe(migrate((0, 1), replica, 0), "is not a primary").await;
    nodes[0].is_unsafe(migrate((0, 1), &"e".repeat(40), 0), "is not known").await;
    nodes[0].is_unsafe(migrate((0, 16_383), target, 0), "slot 10923 is served by").await;
    nodes[3].is_unsafe(migrate((0, 1), target, 0), "is a replica").await;
    let other = LIBRARY.replace("42", "43");
    patient(&nodes[0]).await.function_load(LIBRARY).await.unwrap();
    patient(&nodes[1]).await.function_load(&other).await.unwrap();
    match nodes[0].run(migrate((0, 1), target, 0)).await {
        Outcome::Failed(failed) => assert!(failed.detail.contains("function library shop"), "{failed:?}"),
        other => panic!("{other:?}"),
    }
    assert!(owns(&nodes[0], 0).await);
}

async fn asked_for_migrations(node: &Node) -> u64 {
    let info = patient(node).await.info(&["commandstats"]).await.unwrap();
    let calls = info.text("cmdstat_cluster|getslotmigrations").unwrap_or_default();
    calls.split(',').find_map(|pair| pair.strip_prefix("calls=")?.parse().ok()).unwrap_or_default()
}

/// Does not get on, because its target hangs.
async fn begin_by_hand(nodes: &[Node], target: &str) {
    nodes[1].server.freeze().unwrap();
    let mut source = patient(&nodes[0]).await;
    source.cluster_migrate_slots(&"0-9".parse().unwrap(), &target.into()).await.unwrap();
}

#[tokio::test]
async fn a_migration_that_is_under_way_is_waited_for() {
    let nodes = formed(ServerVersion::V9_1).await;
    fill(&nodes[0], 5, 20).await;
    let target = nodes[1].id().await;
    begin_by_hand(&nodes, &target).await;
    let thaw = async {
        eventually("it looks for the second time", async || asked_for_migrations(&nodes[0]).await >= 2).await;
        nodes[1].server.thaw().unwrap();
    };
    let (done, ()) = tokio::join!(nodes[0].done(migrate((0, 5), &target, 0)), thaw);
    assert!(done.changed && done.did.contains("that was under way: success"), "{done:?}");
    assert_eq!(patient(&nodes[0]).await.cluster_slot_migrations().await.unwrap().len(), 1);
    assert_eq!((count(&nodes[1], 5).await, done.moved.unwrap().slots), (20, 10));
}

#[tokio::test]
async fn a_migration_that_takes_too_long_or_is_not_wanted_any_more_is_cancelled() {
    let nodes = formed(ServerVersion::V9_1).await;
    fill(&nodes[0], 5, 20).await;
    let target = nodes[1].id().await;
    begin_by_hand(&nodes, &target).await;
    let late = nodes[0].run_within(migrate((0, 9), &target, 0), Duration::from_secs(1)).await;
    assert!(
        matches!(&late, Outcome::Failed(failed) if failed.deadline_passed && failed.detail.contains("cancelled")),
        "{late:?}"
    );
    begin_by_hand(&nodes, &target).await;
    assert!(nodes[0].done(Action::CancelMigration(CancelMigration {})).await.changed);
    assert!(!nodes[0].done(Action::CancelMigration(CancelMigration {})).await.changed);
    nodes[1].server.thaw().unwrap();
    assert_eq!(count(&nodes[0], 5).await, 20);
    eventually("the target is heard again", async || {
        matches!(nodes[0].run(migrate((0, 9), &target, 0)).await, Outcome::Done(_))
    })
    .await;
    assert_eq!(value(&nodes[1], 5, "19").await, "value19");
}

#[tokio::test]
async fn it_is_not_done_before_the_targets_replica_has_the_keys() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let target = nodes[1].id().await;
        fill(&nodes[0], 5, 20).await;
        nodes[4].server.freeze().unwrap();
        let began = Instant::now();
        let late = nodes[0].run(migrate((5, 5), &target, 0)).await;
        nodes[4].server.thaw().unwrap();
        assert!(matches!(&late, Outcome::Failed(failed) if failed.detail.contains("replica")), "{late:?}");
        assert!(began.elapsed() < DEADLINE / 2, "others of this node wait: {:?}", began.elapsed());
        eventually("the replica follows", async || {
            matches!(nodes[0].run(migrate((5, 5), &target, 0)).await, Outcome::Done(_))
        })
        .await;
        assert_eq!((count(&nodes[1], 5).await, count(&nodes[4], 5).await), (20, 20));
    }
}

/// SETSLOT MIGRATING takes a second target without a word.
#[tokio::test]
async fn two_commands_with_two_targets_do_not_get_in_each_others_way() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let targets = [nodes[1].id().await, nodes[2].id().await];
        let load = writer(&nodes).await;
        acknowledged(&load, 300).await;
        let orders = targets.each_ref().map(|target| nodes[0].run(migrate((0, 199), target, 0)));
        let outcomes = join_all(orders).await;
        acknowledged(&load, 300).await;
        let view = patient(&nodes[0]).await.cluster_nodes().await.unwrap();
        assert!(view.myself().unwrap().moves.is_empty(), "{outcomes:?}");
        assert!(matches!(&outcomes[0], Outcome::Done(done) if done.moved.is_some()), "{outcomes:?}");
        assert_whole(&load.stop().await.unwrap());
    }
}

/// It stops the moves first, and a slot in between would stay open without its sidecar.
#[tokio::test]
async fn a_node_that_is_to_hand_over_ends_its_moves_between_two_batches() {
    let nodes = formed(ServerVersion::V8_1).await;
    let target = nodes[1].id().await;
    for slot in 0..1_500 {
        fill(&nodes[0], slot, 4).await;
    }
    let moves = &nodes[0].context.shared.slot_moves;
    let stop = async {
        eventually("some have moved", async || owns(&nodes[1], 0).await).await;
        let stopped = moves.stop(DEADLINE).await;
        let refused = nodes[0].run_within(migrate((0, 1_499), &target, 0), Duration::from_millis(200)).await;
        assert!(matches!(refused, Outcome::Failed(_)), "{refused:?}");
        drop(stopped);
    };
    let (done, ()) = tokio::join!(nodes[0].done(migrate((0, 1_499), &target, 0)), stop);
    assert!(done.moved.unwrap().slots < 1_500, "{done:?}");
    for node in [&nodes[0], &nodes[1]] {
        assert!(moves_of(node).await.is_empty());
    }
}
