//! Nodes that leave: refused where data could be lost, and empty for good where not.

use super::{
    cluster::{Node, eventually, formed, meet},
    keys::{count, fill, patient},
    open_slots::{moves, open},
};
use link::contract::{Leave, answer::Outcome, command::Action};
use valkey::{
    SlotOwner,
    testing::{BOTH_VERSIONS, ServerVersion},
};

fn leave() -> Action {
    Action::Leave(Leave {})
}

async fn is_new(node: &Node, former: &str) {
    let mut connection = patient(node).await;
    let nodes = connection.cluster_nodes().await.unwrap();
    let myself = nodes.myself().unwrap();
    assert!(nodes.0.len() == 1 && myself.slots.is_empty() && myself.id.as_str() != former, "{nodes:?}");
    assert_eq!(connection.database_size().await.unwrap(), 0);
}

#[tokio::test]
async fn a_replica_leaves_its_primary_with_the_data_and_comes_back_empty() {
    for version in BOTH_VERSIONS {
        for journal in ["no", "yes"] {
            let mut nodes = formed(version).await;
            fill(&nodes[0], 5, 50).await;
            eventually("the replica has them", async || count(&nodes[3], 5).await == 50).await;
            let former = nodes[3].id().await;
            let parameter = [("appendonly".to_owned(), journal.to_owned())].into();
            patient(&nodes[3]).await.config_set(&parameter).await.unwrap();
            let done = nodes[3].done(leave()).await;
            assert!(done.changed && done.did.contains("CLUSTER RESET HARD"), "{done:?}");
            assert!(!nodes[3].done(leave()).await.changed);
            let new = nodes[3].id().await;
            nodes[3].server.kill().unwrap();
            nodes[3].server.start_again().unwrap();
            is_new(&nodes[3], &former).await;
            assert_eq!((nodes[3].id().await, count(&nodes[0], 5).await), (new, 50));
            let data = nodes[3].context.data_dir.clone();
            assert!(!data.join("sidecar-leave.json").exists() && !data.join("sidecar-replicas.json").exists());
        }
    }
}

#[tokio::test]
async fn an_empty_primary_leaves_and_one_with_slots_does_not() {
    for version in BOTH_VERSIONS {
        let mut nodes = formed(version).await;
        nodes.push(Node::start(version));
        nodes[0].done(meet(&nodes)).await;
        // Whoever is still about to greet it would bring it back.
        for node in &nodes {
            eventually("all know it well", async || {
                let view = node.view().await;
                view.nodes.len() == 7 && view.nodes.iter().all(|node| !node.handshake && (node.link_up || node.myself))
            })
            .await;
        }
        let (former, source) = (nodes[6].id().await, nodes[0].id().await);
        let (new, source) = (former.as_str().into(), source.as_str().into());
        patient(&nodes[6]).await.cluster_set_slot(5, SlotOwner::Importing(&source)).await.unwrap();
        patient(&nodes[0]).await.cluster_set_slot(5, SlotOwner::Migrating(&new)).await.unwrap();
        nodes[6].is_unsafe(leave(), "slot 5 is half moved").await;
        patient(&nodes[0]).await.cluster_set_slot(5, SlotOwner::Stable).await.unwrap();
        assert!(nodes[6].done(leave()).await.changed);
        is_new(&nodes[6], &former).await;
        nodes[0].is_unsafe(leave(), "owns 5461 slots").await;
    }
}

/// It need not hear when its primary's note goes.
#[tokio::test]
async fn a_replica_that_notes_a_slot_of_its_primary_leaves() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        open(&nodes).await;
        eventually("the replica notes it", async || !moves(&nodes[4]).await.is_empty()).await;
        assert!(nodes[4].done(leave()).await.changed);
    }
}

/// What comes shows in no count of keys, and its slots are nobody's yet.
#[tokio::test]
async fn a_node_to_which_valkey_moves_slots_does_not_leave() {
    let mut nodes = formed(ServerVersion::V9_1).await;
    nodes.push(Node::start(ServerVersion::V9_1));
    nodes[0].done(meet(&nodes)).await;
    let linked = async || {
        let view = nodes[6].view().await;
        view.nodes.len() == 7 && view.nodes.iter().all(|node| !node.handshake && (node.link_up || node.myself))
    };
    eventually("all know it well", linked).await;
    fill(&nodes[0], 5, 200_000).await;
    let (target, mut coming) = (nodes[6].id().await.as_str().into(), patient(&nodes[6]).await);
    patient(&nodes[0]).await.cluster_migrate_slots(&"5".parse().unwrap(), &target).await.unwrap();
    while coming.cluster_slot_migrations().await.unwrap().is_empty() {}
    nodes[0].server.freeze().unwrap();
    let jobs = coming.cluster_slot_migrations().await.unwrap();
    assert!(jobs.iter().any(|job| !job.is_over()), "{jobs:?}");
    nodes[6].is_unsafe(leave(), "Valkey is moving slots").await;
    nodes[0].server.thaw().unwrap();
}

#[tokio::test]
async fn a_replica_that_may_have_the_last_copy_does_not_leave() {
    let mut nodes = formed(ServerVersion::V9_1).await;
    fill(&nodes[0], 5, 50).await;
    eventually("the replica has them", async || count(&nodes[3], 5).await == 50).await;
    nodes[0].server.freeze().unwrap();
    nodes[3].is_unsafe(leave(), "gave no answer").await;
    nodes[0].server.thaw().unwrap();
    nodes[0].server.kill().unwrap();
    nodes[3].is_unsafe(leave(), "gave no answer").await;
    assert_eq!(count(&nodes[3], 5).await, 50);
}

#[tokio::test]
async fn a_lone_primary_with_keys_does_not_leave() {
    let node = Node::start(ServerVersion::V9_1);
    let mut connection = patient(&node).await;
    connection.cluster_add_slots(0, 16_383).await.unwrap();
    eventually("it serves", async || connection.call(&["SET", "key", "value"]).await.is_ok()).await;
    connection.call(&["CLUSTER", "DELSLOTSRANGE", "0", "16383"]).await.unwrap();
    match node.run(leave()).await {
        Outcome::Refused(refused) => assert!(refused.detail.contains("a primary with 1 keys"), "{refused:?}"),
        // From 9 on keys go together with their slots.
        other => assert!(matches!(&other, Outcome::Done(done) if !done.changed), "{other:?}"),
    }
}
