use super::cluster::{Node, eventually, failover, failover_with, forget, formed};
use link::contract::{FailoverMode, Position, Role, answer::Outcome};
use std::{collections::BTreeMap, time::Duration};
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

/// A primary denies its vote in the first seconds of its life.
async fn wait_for_voters(nodes: &[Node]) {
    for node in nodes {
        eventually("it votes", async || {
            let info = node.server.connect().await.unwrap().info(&["server"]).await.unwrap();
            info.number("uptime_in_seconds").is_some_and(|seconds| seconds >= 6)
        })
        .await;
    }
}

#[tokio::test]
async fn a_coordinated_failover_is_done_once() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        wait_for_voters(&nodes).await;
        let done = nodes[3].done(failover(FailoverMode::Coordinated)).await;
        assert!(done.changed && done.node.unwrap().role() == Role::Primary);
        let again = nodes[3].done(failover(FailoverMode::Coordinated)).await;
        assert!(!again.changed && again.found.starts_with("a primary with 5461 slots"), "{again:?}");
    }
}

#[tokio::test]
async fn a_coordinated_failover_is_not_begun_while_most_voters_are_silent() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        wait_for_voters(&nodes).await;
        for frozen in &nodes[1..3] {
            frozen.server.freeze().unwrap();
        }
        let late = nodes[3].run_within(failover(FailoverMode::Coordinated), Duration::from_secs(5)).await;
        let log = nodes[0].server.log();
        for frozen in &nodes[1..3] {
            frozen.server.thaw().unwrap();
        }
        assert!(matches!(&late, Outcome::Failed(failed) if failed.detail.contains("too few primaries")), "{late:?}");
        assert!(!log.contains("anual failover requested"), "{log}");
        assert!(nodes[3].done(failover(FailoverMode::Coordinated)).await.changed);
    }
}

#[tokio::test]
async fn a_coordinated_failover_is_won_after_the_voters_were_restarted_a_moment_before() {
    // Before 9 voters vote at once, and do not always start with the nodes.conf of a cluster that was formed a moment ago.
    let mut nodes = formed(ServerVersion::V9_1).await;
    for voter in &mut nodes[1..3] {
        voter.server.kill().unwrap();
        voter.server.start_again().unwrap();
    }
    let done = nodes[3].done(failover(FailoverMode::Coordinated)).await;
    assert_eq!(done.node.unwrap().role(), Role::Primary);
}

#[tokio::test]
async fn after_a_kill_the_replica_is_promoted_by_force_and_the_dead_is_forgotten_when_replaced() {
    for version in BOTH_VERSIONS {
        let mut nodes = formed(version).await;
        wait_for_voters(&nodes).await;
        let dead = nodes[0].id().await;
        nodes[0].server.kill().unwrap();
        let done = nodes[3].done(failover(FailoverMode::Force)).await;
        assert!(done.changed, "{done:?}");
        for node in &nodes[1..] {
            eventually("the dead serves nothing in this view", async || {
                let view = node.view().await;
                view.nodes.iter().all(|node| node.node_id != dead || node.slots.is_empty())
            })
            .await;
        }
        // The others may hear of it from the first before they are asked themselves.
        assert!(nodes[1].done(forget(&dead)).await.changed);
        for node in &nodes[1..] {
            node.done(forget(&dead)).await;
            assert!(!node.done(forget(&dead)).await.changed);
            assert!(node.view().await.nodes.iter().all(|node| node.node_id != dead));
        }
    }
}

async fn position(node: &Node) -> Position {
    let info = node.server.connect().await.unwrap().info(&["replication"]).await.unwrap();
    Position {
        replication_id: info.text("master_replid").unwrap().to_owned(),
        offset: info.number("master_repl_offset").unwrap(),
    }
}

#[tokio::test]
async fn a_replica_that_has_less_than_its_primary_had_is_not_promoted_by_force() {
    for version in BOTH_VERSIONS {
        let mut nodes = formed(version).await;
        wait_for_voters(&nodes).await;
        let had = position(&nodes[0]).await;
        nodes[0].server.kill().unwrap();
        let more = Position { offset: had.offset + 1_000_000, ..had.clone() };
        let refused = nodes[3].run_within(failover_with(more), Duration::from_secs(12)).await;
        assert!(
            matches!(&refused, Outcome::Refused(refused) if refused.detail.contains("may come back")),
            "{refused:?}"
        );
        let done = nodes[3].done(failover_with(had)).await;
        assert_eq!(done.node.unwrap().role(), Role::Primary);
    }
}

/// How many nodes it sent a request for their vote to, in all elections.
async fn asked_for_votes(node: &Node) -> u32 {
    let text = node.server.connect().await.unwrap().call(&["CLUSTER", "INFO"]).await.unwrap().into_text();
    let line = text.lines().find_map(|line| line.strip_prefix("cluster_stats_messages_auth-req_sent:"));
    line.map(|count| count.trim().parse().unwrap()).unwrap_or_default()
}

/// A server that does not listen refuses connections as one that is not there; the cluster bus stays as it is.
async fn listen(node: &Node, listens: bool) {
    let port: &str = &node.server.port.to_string();
    let mut connection = node.server.connect().await.unwrap();
    for (name, value) in [("cluster-announce-port", port), ("port", if listens { port } else { "0" })] {
        connection.config_set(&BTreeMap::from([(name.to_owned(), value.to_owned())])).await.unwrap();
    }
}

/// Whoever takes a connection may serve clients, whatever it says to us.
#[tokio::test]
async fn a_node_that_hangs_or_denies_an_answer_is_neither_overthrown_nor_forgotten() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let (denying, hanging) = (nodes[4].id().await, nodes[5].id().await);
        for node in [&nodes[0], &nodes[4]] {
            let password = BTreeMap::from([("requirepass".to_owned(), "secret".to_owned())]);
            node.server.connect().await.unwrap().config_set(&password).await.unwrap();
        }
        nodes[3].is_unsafe(failover(FailoverMode::Force), "NOAUTH").await;
        nodes[1].is_unsafe(forget(&denying), "NOAUTH").await;
        for node in [&nodes[2], &nodes[5]] {
            node.server.freeze().unwrap();
        }
        nodes[1].is_unsafe(forget(&hanging), "gave no answer").await;
        nodes[5].server.thaw().unwrap();
        nodes[5].is_unsafe(failover(FailoverMode::Force), "gave no answer").await;
    }
}

/// Serves clients at its host name only: nobody listens at the address that the others know.
async fn move_away(node: &Node, witness: &Node) {
    let moves =
        [("cluster-announce-hostname", "localhost"), ("bind", "127.0.0.1"), ("cluster-announce-ip", "127.0.0.9")];
    let mut connection = node.server.connect().await.unwrap();
    for (name, value) in moves {
        connection.config_set(&BTreeMap::from([(name.to_owned(), value.to_owned())])).await.unwrap();
    }
    let id = node.id().await;
    eventually("the others know its old address and its name", async || {
        let view = witness.view().await;
        let known = view.nodes.into_iter().find(|node| node.node_id == id).unwrap();
        known.hostname == "localhost" && known.address.is_some_and(|address| address.ip == "127.0.0.9")
    })
    .await;
}

#[tokio::test]
async fn a_node_that_lives_under_its_host_name_is_neither_overthrown_nor_forgotten() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        move_away(&nodes[0], &nodes[3]).await;
        move_away(&nodes[4], &nodes[2]).await;
        nodes[3].is_unsafe(failover(FailoverMode::Force), "answers").await;
        nodes[2].is_unsafe(forget(&nodes[4].id().await), "answers").await;
    }
}

#[tokio::test]
async fn a_primary_that_is_back_before_the_vote_is_won_is_not_overthrown() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        for frozen in &nodes[1..3] {
            frozen.server.freeze().unwrap();
        }
        listen(&nodes[0], false).await;
        let back = async {
            eventually("it asks for votes", async || asked_for_votes(&nodes[3]).await > 0).await;
            listen(&nodes[0], true).await;
        };
        let forced = nodes[3].run_within(failover(FailoverMode::Force), Duration::from_secs(12));
        let (forced, ()) = tokio::join!(forced, back);
        assert!(matches!(&forced, Outcome::Refused(refused) if refused.detail.contains("answers")), "{forced:?}");
    }
}

#[tokio::test]
async fn without_a_majority_force_fails_and_only_takeover_helps() {
    for version in BOTH_VERSIONS {
        let mut nodes = formed(version).await;
        for dead in [0, 1] {
            nodes[dead].server.kill().unwrap();
        }
        let forced = nodes[3].run_within(failover(FailoverMode::Force), Duration::from_secs(3)).await;
        assert!(matches!(&forced, Outcome::Failed(failed) if failed.deadline_passed), "{forced:?}");
        let asked = asked_for_votes(&nodes[3]).await;
        assert!(asked >= 6, "three nodes live, and a lost election is soon followed by another: {asked}");
        eventually("the majority is missed", async || {
            nodes[3].view().await.nodes.iter().filter(|node| node.failing || node.possibly_failing).count() >= 2
        })
        .await;
        assert!(nodes[3].done(failover(FailoverMode::Takeover)).await.changed);
        // With this vote there is a majority again, which the last shard's replica needs.
        eventually("all slots are served again", async || {
            nodes[2].view().await.summary.is_some_and(|summary| summary.state_ok)
        })
        .await;
    }
}
