use super::cluster::{Node, add_slots, at, eventually, failover, forget, formed, meet, replicate};
use link::contract::{FailoverMode, Meet, NodeAddress, RefusedReason, ReloadAcl, answer::Outcome, command::Action};
use std::time::Duration;
use valkey::testing::{BOTH_VERSIONS, ServerVersion, free_port};

#[tokio::test]
async fn nothing_that_could_lose_data_is_done() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let ids = [nodes[0].id().await, nodes[1].id().await, nodes[4].id().await];
        let [first, second, replica_of_second] = &ids;
        nodes[0].is_unsafe(add_slots((0, 5461)), "slot 5461 is served by").await;
        nodes[3].is_unsafe(add_slots((0, 1)), "is a replica").await;
        nodes[0].is_unsafe(replicate(second), "serves slots").await;
        nodes[0].is_unsafe(forget(first), "is this node itself").await;
        nodes[0].is_unsafe(forget(second), "serves slots").await;
        nodes[3].is_unsafe(forget(first), "is the primary of this node").await;
        nodes[0].is_unsafe(forget(replica_of_second), "answers").await;
        nodes[3].is_unsafe(failover(FailoverMode::Force), "answers").await;
        nodes[3].is_unsafe(failover(FailoverMode::Takeover), "are there to vote").await;
        let view = nodes[3].view().await;
        assert_eq!((view.nodes.len(), view.summary.unwrap().slots_assigned), (6, 16_384));
    }
}

#[tokio::test]
async fn a_replica_with_the_last_copy_does_not_go_to_another_primary() {
    let mut nodes = formed(ServerVersion::V9_1).await;
    let mut primary = nodes[0].server.connect().await.unwrap();
    primary.call(&["SET", "{06S}", "value"]).await.unwrap();
    eventually("the replica has it", async || {
        nodes[3].server.connect().await.unwrap().database_size().await.unwrap() == 1
    })
    .await;
    let other = nodes[1].id().await;
    nodes[0].server.kill().unwrap();
    eventually("the replica misses its primary", async || {
        let info = nodes[3].server.connect().await.unwrap().info(&["replication"]).await.unwrap();
        info.text("master_link_status") == Some("down")
    })
    .await;
    nodes[3].is_unsafe(replicate(&other), "last copy").await;
}

#[tokio::test]
async fn whoever_else_is_at_the_address_is_not_met() {
    for version in BOTH_VERSIONS {
        let nodes = [Node::start(version), Node::start(version)];
        let address = |node_id: &str| NodeAddress { node_id: node_id.to_owned(), ..at(nodes[1].server.port) };
        let meet = |node_id: &str| Action::Meet(Meet { nodes: vec![address(node_id)] });
        let outcome = nodes[0].run(meet(&"b".repeat(40))).await;
        assert!(
            matches!(&outcome, Outcome::Failed(failed) if failed.detail.contains("nothing was done")),
            "{outcome:?}"
        );
        assert_eq!(nodes[0].view().await.nodes.len(), 1);
        assert!(nodes[0].done(meet(&nodes[1].id().await)).await.changed);
    }
}

#[tokio::test]
async fn two_clusters_that_serve_the_same_slots_never_meet() {
    for version in BOTH_VERSIONS {
        let nodes = [Node::start(version), Node::start(version)];
        for node in &nodes {
            node.done(add_slots((0, 16_383))).await;
        }
        nodes[0].is_unsafe(meet(&nodes), "another cluster").await;
        for node in &nodes {
            assert_eq!(node.view().await.nodes.len(), 1);
        }
    }
}

#[tokio::test]
async fn who_does_not_answer_is_not_met_and_who_is_not_known_is_not_followed() {
    let node = Node::start(ServerVersion::V8_1);
    let nobody = Action::Meet(Meet { nodes: vec![at(free_port().unwrap())] });
    let unknown = replicate("0123456789012345678901234567890123456789");
    for (action, part) in [(nobody, "gives no answer"), (unknown, "as a primary")] {
        match node.run_within(action, Duration::from_secs(3)).await {
            Outcome::Failed(failed) => assert!(failed.detail.contains(part) && failed.did.is_empty(), "{failed:?}"),
            other => panic!("{other:?}"),
        }
    }
    let (reason, _) = node.refused(failover(FailoverMode::Coordinated)).await;
    assert_eq!(reason, RefusedReason::Invalid, "a primary without slots has nobody to take over from");
}

#[tokio::test]
async fn commands_of_the_future_are_unknown() {
    let node = Node::start(ServerVersion::V9_1);
    assert_eq!(node.refused(Action::ReloadAcl(ReloadAcl::default())).await.0, RefusedReason::UnknownCommand);
}
