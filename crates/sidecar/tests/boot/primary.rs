//! A primary whose process dies, with and without anything on its disk.

use crate::{
    cluster::{Cluster, KEYS, SHARDS, keys, try_connect},
    pod::eventually,
};
use std::time::Duration;
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

/// Of a gate with a patience of one second.
const PATIENCE_AND_MORE: Duration = Duration::from_secs(3);
const NOTHING_ON_DISK: [(&str, &str); 1] = [("save", "")];
const JOURNAL: [(&str, &str); 3] = [("save", ""), ("appendonly", "yes"), ("appendfsync", "always")];

fn waits(cluster: &Cluster, pod: usize) -> bool {
    let pod = &cluster.pods[pod];
    let [startup, liveness, readiness] =
        ["/valkey/startup", "/valkey/liveness", "/valkey/readiness"].map(|path| pod.get(path));
    let status = pod.status();
    readiness.state() == "waiting-at-gate"
        && [startup.status, liveness.status, readiness.status] == [200, 200, 503]
        && status["boot"]["waiting"] == true
}

async fn a_killed_primary_follows_its_successor(version: ServerVersion, parameters: &[(&str, &str)], has_data: bool) {
    let mut cluster = Cluster::form(version, parameters, &[]).await;
    cluster.write(0).await;
    cluster.kill(0);
    cluster.launch(0);
    eventually("it waits at the gate and its probes leave it alone", || async { waits(&cluster, 0) }).await;
    assert_eq!(cluster.pods[0].status()["boot"]["hasData"], has_data);
    // No operator and nobody who helps: the cluster itself votes for the replica.
    cluster.wait_role(SHARDS, true).await;
    assert_eq!(keys(&cluster.pods[SHARDS]).await, KEYS, "{}", cluster.logs());
    cluster.wait_role(0, false).await;
    cluster.wait_healthy().await;
    assert_eq!([keys(&cluster.pods[0]).await, keys(&cluster.pods[SHARDS]).await], [KEYS; 2]);
}

#[tokio::test]
async fn without_persistence_a_killed_primary_never_comes_back_empty_8_1() {
    a_killed_primary_follows_its_successor(ServerVersion::V8_1, &NOTHING_ON_DISK, false).await;
}

#[tokio::test]
async fn without_persistence_a_killed_primary_never_comes_back_empty_9_1() {
    a_killed_primary_follows_its_successor(ServerVersion::V9_1, &NOTHING_ON_DISK, false).await;
}

#[tokio::test]
async fn with_an_append_only_file_a_killed_primary_leaves_its_place_to_its_replica() {
    for version in BOTH_VERSIONS {
        a_killed_primary_follows_its_successor(version, &JOURNAL, true).await;
    }
}

/// Two of three primaries gone at once: nobody can vote. Without data they stay down; what the replicas hold stays.
#[tokio::test]
async fn without_a_majority_empty_primaries_stay_down_however_long_it_takes() {
    let mut cluster = Cluster::form(ServerVersion::V9_1, &NOTHING_ON_DISK, &["--boot-patience", "1"]).await;
    for shard in [0, 1] {
        cluster.write(shard).await;
    }
    for pod in [0, 1] {
        cluster.kill(pod);
        cluster.launch(pod);
    }
    eventually("both wait", || async { waits(&cluster, 0) && waits(&cluster, 1) }).await;
    // Far beyond the patience: the claim is that nothing happens.
    tokio::time::sleep(std::time::Duration::from_secs(8)).await;
    assert!(waits(&cluster, 0) && waits(&cluster, 1), "{}", cluster.logs());
    for shard in [0, 1] {
        assert_eq!(keys(&cluster.pods[shard + SHARDS]).await, KEYS);
        let mut replica = try_connect(&cluster.pods[shard + SHARDS]).await.unwrap();
        replica.cluster_failover_takeover().await.unwrap();
    }
    for pod in [0, 1] {
        cluster.wait_role(pod, false).await;
    }
    cluster.wait_healthy().await;
    assert_eq!([keys(&cluster.pods[0]).await, keys(&cluster.pods[1]).await], [KEYS; 2]);
}

/// The snapshot on disk is of the time before the keys: it must not win over the replica in memory.
#[tokio::test]
async fn an_old_snapshot_does_not_win_over_a_living_replica() {
    let mut cluster = Cluster::form(ServerVersion::V8_1, &NOTHING_ON_DISK, &["--boot-patience", "0.5"]).await;
    cluster.pods[0].connect().await.call(&["SAVE"]).await.unwrap();
    cluster.write(0).await;
    cluster.kill(0);
    cluster.launch(0);
    eventually("it waits at the gate", || async { waits(&cluster, 0) }).await;
    cluster.wait_role(SHARDS, true).await;
    cluster.wait_role(0, false).await;
    cluster.wait_healthy().await;
    assert_eq!([keys(&cluster.pods[0]).await, keys(&cluster.pods[SHARDS]).await], [KEYS; 2]);
}

#[tokio::test]
async fn a_killed_replica_starts_at_once() {
    let mut cluster = Cluster::form(ServerVersion::V9_1, &NOTHING_ON_DISK, &[]).await;
    cluster.write(0).await;
    cluster.kill(SHARDS);
    cluster.launch(SHARDS);
    eventually("it is back in sync", || async { keys(&cluster.pods[SHARDS]).await == KEYS }).await;
    assert_eq!(cluster.pods[SHARDS].status()["boot"]["reason"], "it was a replica");
}

/// After a hand-over the former primary is a replica; stopped in order without one it has all its data.
#[tokio::test]
async fn a_primary_that_stopped_in_order_starts_at_once() {
    let mut cluster = Cluster::form(ServerVersion::V8_1, &[], &[]).await;
    cluster.write(0).await;
    cluster.kill(SHARDS);
    let primary = &cluster.pods[0];
    eventually("the primary misses its replica", || async {
        primary.connect().await.info(&["replication"]).await.unwrap().attached_replicas().is_empty()
    })
    .await;
    assert_eq!(primary.get("/valkey/pre-stop").json()["outcome"], "no-replica-in-sync");
    cluster.pods[0].server().terminate().unwrap();
    cluster.launch(0);
    eventually("it is back with its keys", || async { keys(&cluster.pods[0]).await == KEYS }).await;
    assert_eq!(cluster.pods[0].status()["boot"]["reason"], "it stopped in order with all its data");
}

/// The kubelet kills what has not ended within its grace period: what such a Valkey acknowledged last need not be on its disk.
#[tokio::test]
async fn a_primary_killed_after_it_was_asked_to_stop_has_not_stopped_in_order() {
    for version in BOTH_VERSIONS {
        let mut cluster = Cluster::form(version, &JOURNAL, &[]).await;
        cluster.write(0).await;
        // It stays the primary: nobody hands over to a replica that says it stops.
        assert_eq!(cluster.pods[SHARDS].get("/valkey/pre-stop").json()["outcome"], "nothing-to-do");
        assert_eq!(cluster.pods[0].get("/valkey/pre-stop").json()["outcome"], "no-replica-in-sync");
        cluster.kill(0);
        cluster.launch(0);
        eventually("it waits at the gate", || async { waits(&cluster, 0) }).await;
        assert_eq!(cluster.pods[0].status()["boot"]["cleanStop"], false);
        cluster.wait_role(SHARDS, true).await;
        cluster.wait_role(0, false).await;
        cluster.wait_healthy().await;
        assert_eq!([keys(&cluster.pods[0]).await, keys(&cluster.pods[SHARDS]).await], [KEYS; 2]);
    }
}

/// Nobody took the writes since the link was lost but the primary itself, and they are on its disk.
#[tokio::test]
async fn an_intact_primary_is_back_before_a_copy_that_lacks_writes_is_elected() {
    for version in BOTH_VERSIONS {
        // Its patience does not end in this test: what opens the gate is what the replica answers.
        let mut cluster = Cluster::form(version, &JOURNAL, &["--boot-patience", "600"]).await;
        cluster.unlink(0, 3).await;
        cluster.write_to_primary(0).await;
        cluster.kill(0);
        cluster.launch(0);
        eventually("it runs again", || async { cluster.role(0).await.is_some() }).await;
        assert_eq!(cluster.role(0).await, Some(true), "{version:?}: {}", cluster.logs());
        // It tells its role while it still loads.
        eventually("it has its keys", || async { keys(&cluster.pods[0]).await == KEYS }).await;
        let reason = cluster.pods[0].status()["boot"]["reason"].to_string();
        assert!(reason.contains("followed it to its end"), "{reason}");
    }
}

/// Slot migrations and colliding nodes raise their epoch without a vote. If nobody heard of it before the end, the vote for the
/// replica is held under the same number, and the former primary would win its slots back with what it has.
#[tokio::test]
async fn a_primary_whose_last_epoch_nobody_heard_of_gives_way_all_the_same() {
    for version in BOTH_VERSIONS {
        let mut cluster = Cluster::form(version, &NOTHING_ON_DISK, &[]).await;
        cluster.write(0).await;
        let mut primary = cluster.pods[0].connect().await;
        // The replica hears nothing of it; and it is not voted for, because voters that did hear would deny it their votes.
        cluster.pods[SHARDS].server().freeze().unwrap();
        for _ in 0..3 {
            primary.call(&["CLUSTER", "BUMPEPOCH"]).await.unwrap();
        }
        cluster.kill(0);
        cluster.launch(0);
        cluster.pods[SHARDS].server().thaw().unwrap();
        try_connect(&cluster.pods[SHARDS]).await.unwrap().cluster_failover_takeover().await.unwrap();
        cluster.wait_role(SHARDS, true).await;
        cluster.wait_role(0, false).await;
        cluster.wait_healthy().await;
        assert_eq!([keys(&cluster.pods[0]).await, keys(&cluster.pods[SHARDS]).await], [KEYS; 2]);
    }
}

/// For the minute in which Valkey refuses to meet a node again, a primary does not know a replica that is attached to it.
#[tokio::test]
async fn a_killed_primary_waits_for_a_replica_that_everybody_was_made_to_forget() {
    for version in BOTH_VERSIONS {
        let mut cluster = Cluster::form(version, &NOTHING_ON_DISK, &["--boot-patience", "1"]).await;
        cluster.write(0).await;
        let replica = cluster.pods[SHARDS].connect().await.cluster_my_id().await.unwrap();
        // Told to all at once: what one forgets, another would tell it again.
        for pod in cluster.pods.iter().enumerate().filter(|(index, _)| *index != SHARDS).map(|(_, pod)| pod) {
            pod.connect().await.cluster_forget(&replica).await.unwrap();
        }
        cluster.kill(0);
        cluster.launch(0);
        eventually("it waits at the gate", || async { waits(&cluster, 0) }).await;
        tokio::time::sleep(PATIENCE_AND_MORE).await;
        assert!(waits(&cluster, 0), "{version:?}: it knows of the copy\n{}", cluster.logs());
        assert_eq!(keys(&cluster.pods[SHARDS]).await, KEYS, "{version:?}: the copy is there");
    }
}
