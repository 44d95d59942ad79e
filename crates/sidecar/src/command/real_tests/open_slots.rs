//! Slots that somebody, or an earlier command, left open between two nodes.

use super::{
    cluster::{Node, add_slots, eventually, formed, meet, migrate, replicate},
    keys::{count, fill, key, owns, patient, value},
};
use crate::command::{
    execution::Execution,
    migrate_slots::{batch::Ends, other_end::OtherEnd},
};
use link::contract::{Done, answer::Outcome};
use std::{net::SocketAddr, time::Duration};
use topology::SlotMove;
use valkey::{SlotOwner, testing::BOTH_VERSIONS};

const OPEN: u16 = 5;
const SECOND: Duration = Duration::from_secs(1);

fn address(node: &Node) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], node.server.port))
}

/// As valkey-cli begins it.
pub async fn open(nodes: &[Node]) {
    open_slot(nodes, OPEN).await;
}

async fn open_slot(nodes: &[Node], slot: u16) {
    let (source, target) = (nodes[0].id().await.as_str().into(), nodes[1].id().await.as_str().into());
    patient(&nodes[1]).await.cluster_set_slot(slot, SlotOwner::Importing(&source)).await.unwrap();
    patient(&nodes[0]).await.cluster_set_slot(slot, SlotOwner::Migrating(&target)).await.unwrap();
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
        let moves = moves(node).await;
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
        assert!(done.did.contains("finished slots 5,"), "{done:?}");
        closed(&nodes, &done).await;
        assert_eq!((count(&nodes[1], OPEN).await, done.moved.unwrap().slots), (300, 3));
        assert_eq!([value(&nodes[1], OPEN, "0").await, value(&nodes[1], OPEN, "3").await], ["value0", "value3"]);
    }
}

/// A sidecar was killed between the two.
#[tokio::test]
async fn a_slot_that_only_the_target_was_told_of_moves_only_if_it_is_to() {
    for version in BOTH_VERSIONS {
        for wanted in [OPEN, 20] {
            let nodes = formed(version).await;
            let (source, target) = (nodes[0].id().await, nodes[1].id().await);
            fill(&nodes[0], OPEN, 3).await;
            let importing = source.as_str().into();
            patient(&nodes[1]).await.cluster_set_slot(OPEN, SlotOwner::Importing(&importing)).await.unwrap();
            let done = nodes[0].done(migrate((wanted.into(), wanted.into()), &target, 0)).await;
            assert!(moves(&nodes[1]).await.is_empty(), "{done:?}");
            assert_eq!(owns(&nodes[1], OPEN).await, wanted == OPEN, "{done:?}");
            assert_eq!(count(&nodes[usize::from(wanted == OPEN)], OPEN).await, 3);
        }
    }
}

pub async fn moves(node: &Node) -> Vec<SlotMove> {
    patient(node).await.cluster_nodes().await.unwrap().myself().unwrap().moves.clone()
}

/// Two copies of an unordered value are told in different orders.
#[tokio::test]
async fn an_interrupted_slot_that_this_sidecar_opened_is_finished_without_comparing() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let target = nodes[1].id().await;
        let script = "for i = 1, 5000 do server.call('HSET', KEYS[1], 'field' .. i, 'value' .. i) end";
        patient(&nodes[0]).await.call(&["EVAL", script, "1", &key(OPEN, "big")]).await.unwrap();
        let mut execution = Execution::new(&nodes[0].context, SECOND * 30);
        let server = execution.observe().await.unwrap();
        let other = OtherEnd::find(server.nodes.as_ref().unwrap(), &target.as_str().into()).unwrap();
        let mut ends = Ends::open(&execution, &other, &server, 1).await.unwrap();
        assert_eq!(ends.open_slots(&[OPEN]).await.unwrap().0, [OPEN]);
        copy(&nodes, "big").await;
        let done = nodes[0].done(migrate((20, 20), &target, 0)).await;
        closed(&nodes, &done).await;
        assert_eq!(count(&nodes[1], OPEN).await, 1);
    }
}

#[tokio::test]
async fn a_slot_that_cannot_be_closed_does_not_hold_up_the_others() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let target = nodes[1].id().await;
        for slot in [OPEN, 6] {
            fill(&nodes[0], slot, 5).await;
            open_slot(&nodes, slot).await;
        }
        copy(&nodes, "3").await;
        patient(&nodes[0]).await.call(&["SET", &key(OPEN, "3"), "newer"]).await.unwrap();
        let done = nodes[0].done(migrate((20, 21), &target, 0)).await;
        for slot in [6, 20, 21] {
            assert!(owns(&nodes[1], slot).await, "{slot} {done:?}");
        }
        assert!(owns(&nodes[0], OPEN).await && value(&nodes[0], OPEN, "3").await == "newer");
        let outcome = nodes[0].run(migrate((OPEN.into(), OPEN.into()), &target, 0)).await;
        assert!(matches!(&outcome, Outcome::Failed(failed) if failed.detail.contains("on both ends")), "{outcome:?}");
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
