//! The load against real clusters of both supported lines: sound when all is well, exact about gaps, and not to be fooled when writes
//! are lost.
#![allow(clippy::expect_used, clippy::panic, reason = "a helper of tests may fail the test")]

use load::{
    Client, Load, Options, Report,
    slot::{self, SLOTS},
    testing::{ProcessCluster, connect, wait_until},
};
use std::{net::SocketAddr, time::Duration};
use valkey::{
    Connection, Reply,
    testing::{BOTH_VERSIONS, ServerVersion},
};

/// Long enough that nobody is taken for dead because the machine is busy.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
const NODE_TIMEOUT_MS: f64 = 5000.0;

async fn cluster(version: ServerVersion, replicas: usize) -> ProcessCluster {
    ProcessCluster::start(version, 3, replicas, NODE_TIMEOUT).await.expect("a cluster")
}

fn options(cluster: &ProcessCluster) -> Options {
    Options { writers: 6, rate: 600, verified_within: Duration::from_secs(120), ..Options::to(cluster.seeds()) }
}

async fn start(options: Options) -> Load {
    let load = Load::start(options).await.expect("a load");
    more_acknowledged(&load, 300).await;
    load
}

/// Until this many more writes have been acknowledged.
async fn more_acknowledged(load: &Load, count: u64) {
    let wanted = load.progress().acknowledged + count;
    let enough = async || Ok(load.progress().acknowledged >= wanted);
    wait_until("writes to be acknowledged", enough).await.expect("acknowledged writes");
}

async fn no_shard_silent(load: &Load) {
    let all_speak = async || Ok(load.progress().silent_ms < 100.0);
    wait_until("every shard to acknowledge again", all_speak).await.expect("acknowledged writes");
}

async fn stop(load: Load) -> Report {
    let report = load.stop().await.expect("a report");
    println!("{report}");
    report
}

async fn is_primary(node: SocketAddr) -> Result<bool, valkey::CallError> {
    Ok(connect(node).await?.role().await? == topology::Role::Primary)
}

#[tokio::test]
async fn without_a_fault_nothing_is_lost_and_nothing_fails() {
    for version in BOTH_VERSIONS {
        let cluster = cluster(version, 1).await;
        let load = start(Options { timeline: true, ..options(&cluster) }).await;
        more_acknowledged(&load, 500).await;
        let report = stop(load).await;
        assert!(report.is_sound(), "{report}");
        assert!(report.errors.is_empty() && report.attempted == report.acknowledged, "{report}");
        assert_eq!(report.shards.len(), 3);
        assert!(report.shards.iter().all(|shard| shard.acknowledged > 50), "{report}");
        let timeline: u64 = report.timeline.iter().flatten().map(|second| second.acknowledged).sum();
        assert_eq!(timeline, report.acknowledged);
        assert!(report.latency.p50_ms > 0.0 && report.latency.p50_ms <= report.latency.longest_ms);
    }
}

#[tokio::test]
async fn a_failover_by_hand_loses_nothing() {
    for version in BOTH_VERSIONS {
        let cluster = cluster(version, 1).await;
        let load = start(options(&cluster)).await;
        let replica = cluster.address(3).expect("a replica");
        connect(replica).await.expect("a connection").cluster_failover().await.expect("a failover");
        wait_until("the replica to be primary", async || is_primary(replica).await).await.expect("a new primary");
        no_shard_silent(&load).await;
        let report = stop(load).await;
        assert!(report.is_sound(), "{report}");
    }
}

#[tokio::test]
async fn a_killed_primary_shows_as_a_gap_longer_than_the_node_timeout() {
    for version in BOTH_VERSIONS {
        let mut cluster = cluster(version, 1).await;
        // Only what a replica has can be expected to outlive its primary.
        let load = start(Options { replicas: 1, ..options(&cluster) }).await;
        cluster.kill(0).expect("a killed primary");
        let replica = cluster.address(3).expect("a replica");
        wait_until("the replica to be primary", async || is_primary(replica).await).await.expect("a new primary");
        // The promoted one has no replica, so nothing more is acknowledged until the old primary is back as its replica.
        cluster.start_node(0).expect("the old primary as a replica");
        no_shard_silent(&load).await;
        let report = stop(load).await;
        assert!(report.is_sound(), "{report}");
        let dead = report.shards[0].longest_gap_ms();
        assert!(dead > NODE_TIMEOUT_MS, "{report}");
        assert!(report.refused > 0 && report.errors.contains_key("connection refused"), "{report}");
    }
}

#[tokio::test]
async fn a_shard_that_waits_for_its_replica_has_no_gap_while_its_primary_answers() {
    for version in BOTH_VERSIONS {
        let mut cluster = cluster(version, 1).await;
        let load = start(Options { replicas: 1, ..options(&cluster) }).await;
        more_acknowledged(&load, 100).await;
        cluster.kill(3).expect("a killed replica");
        let silent = async || Ok(load.progress().silent_ms > NODE_TIMEOUT_MS);
        wait_until("a shard to acknowledge nothing", silent).await.expect("a silent shard");
        cluster.start_node(3).expect("the replica");
        no_shard_silent(&load).await;
        let report = stop(load).await;
        assert!(report.is_sound(), "{report}");
        assert!(report.longest_unacknowledged_ms > NODE_TIMEOUT_MS, "{report}");
        assert!(report.longest_gap_ms < report.longest_unacknowledged_ms, "{report}");
    }
}

#[tokio::test]
async fn a_frozen_primary_shows_its_true_gap_although_timeouts_are_longer() {
    let cluster = cluster(ServerVersion::V9_1, 1).await;
    let timeout = Duration::from_secs(120);
    let load = start(Options { timeout, ..options(&cluster) }).await;
    let frozen = cluster.server(0).expect("a primary");
    frozen.freeze().expect("a frozen primary");
    let replica = cluster.address(3).expect("a replica");
    wait_until("the replica to be primary", async || is_primary(replica).await).await.expect("a new primary");
    no_shard_silent(&load).await;
    frozen.thaw().expect("a thawed primary");
    let report = stop(load).await;
    let gap = report.shards[0].longest_gap_ms();
    assert!(gap > NODE_TIMEOUT_MS * 0.8 && gap < timeout.as_secs_f64() * 1e3, "{report}");
    assert!(report.longest_gap_everywhere_ms < gap, "{report}");
}

#[tokio::test]
async fn a_primary_that_comes_back_empty_is_found_out() {
    for version in BOTH_VERSIONS {
        let mut cluster = cluster(version, 0).await;
        let load = start(options(&cluster)).await;
        cluster.kill(1).expect("a killed primary");
        cluster.start_node(1).expect("the primary again, empty");
        no_shard_silent(&load).await;
        let report = stop(load).await;
        assert!(report.lost >= 50 && !report.is_sound(), "{report}");
        assert_eq!(report.wrong, 0);
        let empty = cluster.address(1).expect("a primary").to_string();
        assert!(!report.samples.is_empty() && report.samples.iter().all(|sample| sample.acknowledged_by == empty));
    }
}

#[tokio::test]
async fn a_value_somebody_changed_is_wrong_and_not_lost() {
    let cluster = cluster(ServerVersion::V8_1, 0).await;
    let load = start(options(&cluster)).await;
    let mut connection = cluster.connect(0).await.expect("a connection");
    let key = connection.call(&["RANDOMKEY"]).await.expect("a key").into_text();
    connection.call(&["SET", &key, "something else"]).await.expect("a changed key");
    let report = stop(load).await;
    assert_eq!((report.lost, report.wrong), (0, 1), "{report}");
    assert_eq!(report.samples[0].key, key);
}

#[tokio::test]
async fn nodes_that_do_not_answer_make_it_inconclusive_and_not_lossy() {
    let mut cluster = cluster(ServerVersion::V9_1, 0).await;
    let load = start(Options { verified_within: Duration::from_secs(3), ..options(&cluster) }).await;
    cluster.kill(2).expect("a killed primary");
    let report = stop(load).await;
    assert_eq!((report.lost, report.wrong), (0, 0), "{report}");
    assert!(report.unverified > 0 && report.inconclusive().is_some_and(|why| why.contains("refused")), "{report}");
}

#[tokio::test]
async fn slots_that_move_under_load_are_followed_key_by_key_and_nothing_is_lost() {
    for version in BOTH_VERSIONS {
        let cluster = cluster(version, 0).await;
        let load = start(options(&cluster)).await;
        let client = Client::new(cluster.seeds(), Duration::from_secs(5));
        client.refresh().await.expect("a map");
        let mut mover = Mover::between(&cluster, 0, 1).await;
        for slot in 0..30 {
            mover.open(slot).await;
            while mover.carry(slot, 100).await > 0 {}
            mover.close(slot).await;
        }
        more_acknowledged(&load, 300).await;
        let target = cluster.address(1).expect("a primary");
        let answer = client.send(7, &["PING"]).await.expect("an answer");
        assert_ne!(answer.node, target, "the map was not refreshed, so this shows nothing");
        let key = format!("{{{}}}", slot::tag(7));
        let answer = client.send(7, &["SET", &key, "x"]).await.expect("an answer");
        assert_eq!(answer.node, target);
        let report = stop(load).await;
        assert!(report.is_sound(), "{report}");
    }
}

#[tokio::test]
async fn keys_of_a_slot_that_is_half_moved_are_found_on_both_sides() {
    for version in BOTH_VERSIONS {
        let cluster = cluster(version, 0).await;
        let load = start(options(&cluster)).await;
        let mut mover = Mover::between(&cluster, 0, 1).await;
        let slot = mover.slot_with_several_keys().await;
        mover.open(slot).await;
        assert_eq!(mover.carry(slot, 1).await, 1);
        let client = Client::new(cluster.seeds(), Duration::from_secs(5));
        client.refresh().await.expect("a map");
        let key = format!("{{{}}}new", slot::tag(slot));
        let answer = client.send(slot, &["SET", &key, "x"]).await.expect("an answer");
        assert_eq!(answer.node, cluster.address(1).expect("target"), "ASK was not followed");
        let report = stop(load).await;
        assert!(report.is_sound(), "{report}");
    }
}

/// Moves slots the way valkey-cli does.
struct Mover {
    source: Connection,
    target: Connection,
    ids: (String, String),
    target_port: String,
}

impl Mover {
    async fn between(cluster: &ProcessCluster, source: usize, target: usize) -> Self {
        let target_port = cluster.address(target).expect("target").port().to_string();
        let mut source = cluster.connect(source).await.expect("source");
        let mut target = cluster.connect(target).await.expect("target");
        for connection in [&mut source, &mut target] {
            connection.renew(Duration::from_secs(60));
        }
        let ids = (source.cluster_my_id().await.expect("id"), target.cluster_my_id().await.expect("id"));
        let ids = (ids.0.to_string(), ids.1.to_string());
        Self { source, target, ids, target_port }
    }

    /// The load fills all slots in turn, so one is found sooner or later.
    async fn slot_with_several_keys(&mut self) -> u16 {
        for slot in (0..5461_u16).cycle().take(300_000) {
            let count = self.source.call(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).await.expect("a count");
            if matches!(count, Reply::Integer(2..)) {
                return slot;
            }
        }
        panic!("no slot has two keys")
    }

    async fn open(&mut self, slot: u16) {
        let number = slot.to_string();
        self.target.call(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &self.ids.0]).await.expect("importing");
        self.source.call(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &self.ids.1]).await.expect("migrating");
    }

    /// How many keys were carried over.
    async fn carry(&mut self, slot: u16, most: usize) -> usize {
        let command = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &most.to_string()];
        let Reply::Array(keys) = self.source.call(&command).await.expect("keys") else { panic!("no list of keys") };
        let keys: Vec<String> = keys.into_iter().map(Reply::into_text).collect();
        if !keys.is_empty() {
            let mut command = vec!["MIGRATE", "127.0.0.1", &self.target_port, "", "0", "5000", "KEYS"];
            command.extend(keys.iter().map(String::as_str));
            self.source.call(&command).await.expect("migrated keys");
        }
        keys.len()
    }

    async fn close(&mut self, slot: u16) {
        let number = slot.to_string();
        self.target.call(&["CLUSTER", "SETSLOT", &number, "NODE", &self.ids.1]).await.expect("taken");
        self.source.call(&["CLUSTER", "SETSLOT", &number, "NODE", &self.ids.1]).await.expect("given away");
    }
}

#[tokio::test]
async fn the_server_hashes_keys_as_we_do() {
    let server =
        valkey::testing::TestServer::start(ServerVersion::V9_1, &["--cluster-enabled", "yes"]).expect("a server");
    let mut connection = server.connect().await.expect("a connection");
    for _ in 0..500 {
        let key: String = (0..fastrand::usize(..12))
            .map(|_| fastrand::choice(['{', '}', 'a', 'b', '€', '1']).unwrap_or('x'))
            .collect();
        let theirs = connection.call(&["CLUSTER", "KEYSLOT", &key]).await.expect("a slot").into_text();
        assert_eq!(theirs, slot::of_key(&key).to_string(), "{key:?}");
    }
    assert!((0..SLOTS).step_by(999).all(|slot| slot::of_key(slot::tag(slot)) == slot));
}

#[tokio::test]
async fn a_cluster_that_is_not_formed_is_refused_with_the_reason() {
    let server =
        valkey::testing::TestServer::start(ServerVersion::V8_1, &["--cluster-enabled", "yes"]).expect("a server");
    let seed = format!("127.0.0.1:{}", server.port);
    let options = Options { covered_within: Duration::from_secs(2), ..Options::to([seed.clone()]) };
    let error = Load::start(options).await.err().expect("an error").in_full();
    assert!(error.contains(&seed) && error.contains("no node owns the slots 0-16383"), "{error}");
    let nobody = Options { covered_within: Duration::ZERO, ..Options::to(["127.0.0.1:1"]) };
    let error = Load::start(nobody).await.err().expect("an error").in_full();
    assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
}
