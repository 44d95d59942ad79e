//! Slots that somebody, or an earlier command, left open between two nodes.

use super::{
    cluster::{Node, add_slots, eventually, formed, meet, migrate, replicate},
    keys::{count, fill, key, owns, patient, value},
};
use link::contract::{Done, answer::Outcome};
use std::{net::SocketAddr, time::Duration};
use valkey::{SlotOwner, testing::BOTH_VERSIONS};

const OPEN: u16 = 5;
const SECOND: Duration = Duration::from_secs(1);

fn address(node: &Node) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], node.server.port))
}

/// As valkey-cli begins it.
pub async fn open(nodes: &[Node]) {
    let (source, target) = (nodes[0].id().await.as_str().into(), nodes[1].id().await.as_str().into());
    patient(&nodes[1]).await.cluster_set_slot(OPEN, SlotOwner::Importing(&source)).await.unwrap();
    patient(&nodes[0]).await.cluster_set_slot(OPEN, SlotOwner::Migrating(&target)).await.unwrap();
}

pub async fn send(nodes: &[Node], names: &[&str]) {
    let keys: Vec<Vec<u8>> = names.iter().map(|name| key(OPEN, name).into_bytes()).collect();
    patient(&nodes[0]).await.migrate(address(&nodes[1]), &keys, SECOND, false).await.unwrap();
}

/// As an interrupted MIGRATE leaves it: on both ends.
async fn copy(nodes: &[Node], name: &str) {
    let port = nodes[1].server.port.to_string();
    let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "1000", "COPY", "KEYS"];
    let words = words.into_iter().map(str::to_owned).chain([key(OPEN, name)]);
    patient(&nodes[0]).await.call(&words.collect::<Vec<_>>()).await.unwrap();
}

async fn closed(nodes: &[Node], done: &Done) {
    for node in [&nodes[0], &nodes[1]] {
        let moves = patient(node).await.cluster_nodes().await.unwrap().myself().unwrap().moves.clone();
        assert!(moves.is_empty(), "{moves:?} {done:?}");
    }
    assert!(owns(&nodes[1], OPEN).await && count(&nodes[0], OPEN).await == 0, "{done:?}");
}

#[tokio::test]
async fn a_slot_that_was_left_open_is_finished_whatever_is_asked_for() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let target = nodes[1].id().await;
        fill(&nodes[0], OPEN, 300).await;
        open(&nodes).await;
        send(&nodes, &["0", "1", "2"]).await;
        copy(&nodes, "3").await;
        let done = nodes[0].done(migrate((20, 21), &target, 0)).await;
        assert!(done.did.contains("finished slot 5"), "{done:?}");
        closed(&nodes, &done).await;
        assert_eq!((count(&nodes[1], OPEN).await, done.moved.unwrap().slots), (300, 3));
        assert_eq!([value(&nodes[1], OPEN, "0").await, value(&nodes[1], OPEN, "3").await], ["value0", "value3"]);
    }
}

#[tokio::test]
async fn a_slot_that_only_one_end_was_told_of_is_finished_too() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let (source, target) = (nodes[0].id().await, nodes[1].id().await);
        fill(&nodes[0], OPEN, 3).await;
        patient(&nodes[1]).await.cluster_set_slot(OPEN, SlotOwner::Importing(&source.as_str().into())).await.unwrap();
        let done = nodes[0].done(migrate((20, 20), &target, 0)).await;
        closed(&nodes, &done).await;
        assert_eq!(count(&nodes[1], OPEN).await, 3);
    }
}

/// A new primary without slots, to which the first is half moved; its replica has the only copy of the keys that came.
#[tokio::test]
async fn keys_of_a_half_moved_slot_are_not_given_up_by_the_replica_of_a_new_primary() {
    for version in BOTH_VERSIONS {
        let nodes: Vec<Node> = (0..3).map(|_| Node::start(version)).collect();
        nodes[0].done(meet(&nodes)).await;
        nodes[0].done(add_slots((0, 16_383))).await;
        let (source, target) = (nodes[0].id().await, nodes[1].id().await);
        let follow = async || matches!(nodes[2].run(replicate(&target)).await, Outcome::Done(_));
        eventually("the replica can follow", follow).await;
        eventually("the cluster is up", async || is_up(&nodes[0]).await && is_up(&nodes[1]).await).await;
        fill(&nodes[0], OPEN, 5).await;
        open(&nodes).await;
        send(&nodes, &["0"]).await;
        eventually("the replica has it", async || count(&nodes[2], OPEN).await == 1).await;
        nodes[2].is_unsafe(replicate(&source), "half moved").await;
    }
}

async fn is_up(node: &Node) -> bool {
    node.view().await.summary.is_some_and(|summary| summary.state_ok)
}

/// A source that lost the deletion of a key has an older copy of it than the target, and an interrupted MIGRATE leaves an older one on
/// the target: from outside they look the same.
#[tokio::test]
async fn a_key_with_two_values_stops_it_until_somebody_has_decided() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let target = nodes[1].id().await;
        fill(&nodes[0], OPEN, 5).await;
        open(&nodes).await;
        copy(&nodes, "3").await;
        let two = key(OPEN, "3");
        patient(&nodes[0]).await.call(&["SET", &two, "newer"]).await.unwrap();
        let outcome = nodes[0].run(migrate((OPEN.into(), OPEN.into()), &target, 0)).await;
        let named = format!("key {two} is on both ends");
        assert!(matches!(&outcome, Outcome::Failed(failed) if failed.detail.contains(&named)), "{outcome:?}");
        assert_eq!(value(&nodes[0], OPEN, "3").await, "newer");
        let asking = [vec!["ASKING".to_owned()], vec!["DEL".to_owned(), two]];
        patient(&nodes[1]).await.pipeline(&asking).await.unwrap();
        let done = nodes[0].done(migrate((OPEN.into(), OPEN.into()), &target, 0)).await;
        closed(&nodes, &done).await;
        assert_eq!((value(&nodes[1], OPEN, "3").await, count(&nodes[1], OPEN).await), ("newer".into(), 5));
    }
}
