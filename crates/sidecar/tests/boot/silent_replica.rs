//! A primary that comes back while its replica says nothing, and is heard again later.

use crate::{
    cluster::{Cluster, KEYS, SHARDS, key, keys, try_connect},
    pod::{DEADLINE, eventually},
};
use std::time::{Duration, Instant};
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

const SNAPSHOT: [(&str, &str); 1] = [("save", "")];
const JOURNAL: [(&str, &str); 3] = [("save", ""), ("appendonly", "yes"), ("appendfsync", "always")];
/// Of a gate with a patience of one second.
const PATIENCE_AND_MORE: Duration = Duration::from_secs(4);
/// Writes before the replica is heard again: the election that follows must lose none of them.
const ENOUGH: usize = 50;
/// In this time an election that can be won is won.
const ELECTION: Duration = Duration::from_secs(8);

fn waits(cluster: &Cluster, pod: usize) -> bool {
    cluster.pods[pod].get("/valkey/readiness").state() == "waiting-at-gate"
}

/// It followed to the end, and the snapshot is of before.
#[tokio::test]
async fn a_snapshot_does_not_win_over_a_replica_that_was_silent_for_longer_than_the_patience() {
    for version in BOTH_VERSIONS {
        let mut cluster = Cluster::form(version, &SNAPSHOT, &["--boot-patience", "1"]).await;
        cluster.pods[0].connect().await.call(&["SAVE"]).await.unwrap();
        cluster.write(0).await;
        cluster.pods[SHARDS].server().freeze().unwrap();
        cluster.kill(0);
        cluster.launch(0);
        eventually("it waits at the gate", || async { waits(&cluster, 0) }).await;
        let liveness = |cluster: &Cluster| cluster.pods[SHARDS].get("/valkey/liveness");
        assert_eq!((liveness(&cluster).status, liveness(&cluster).state().as_str()), (200, "hung"), "{version:?}");
        tokio::time::sleep(PATIENCE_AND_MORE).await;
        assert!(waits(&cluster, 0), "{version:?}: the silent one may have more\n{}", cluster.logs());
        cluster.pods[SHARDS].server().thaw().unwrap();
        cluster.wait_role(SHARDS, true).await;
        cluster.wait_role(0, false).await;
        cluster.wait_healthy().await;
        assert_eq!([keys(&cluster.pods[0]).await, keys(&cluster.pods[SHARDS]).await], [KEYS; 2], "{version:?}");
    }
}

/// Its primary has all that it has.
#[tokio::test]
async fn a_replica_that_hangs_beside_its_primary_is_killed_for_it() {
    let mut cluster = Cluster::form(ServerVersion::V9_1, &SNAPSHOT, &[]).await;
    cluster.pods[SHARDS].server().freeze().unwrap();
    let answer = cluster.pods[SHARDS].get("/valkey/liveness");
    assert_eq!((answer.status, answer.state().as_str()), (503, "hung"));
    cluster.pods[SHARDS].server().thaw().unwrap();
}

/// The others hold it for failed, and vote for whoever followed it before.
#[tokio::test]
async fn what_a_primary_acknowledges_after_its_return_survives_the_return_of_its_replica() {
    for version in BOTH_VERSIONS {
        let mut cluster = primary_back_and_replica_silent(version).await;
        let acknowledged = writes_around_the_thaw(&mut cluster, ELECTION).await;
        cluster.wait_healthy().await;
        let missing = missing(&cluster, &acknowledged).await;
        assert_eq!(missing, [""; 0], "{version:?}: of {}\n{}", acknowledged.len(), cluster.logs());
    }
}

#[tokio::test]
async fn a_primary_takes_writes_again_once_the_others_see_that_it_runs() {
    for version in BOTH_VERSIONS {
        let mut cluster = primary_back_and_replica_silent(version).await;
        eventually("it says why it takes no writes", || async {
            cluster.pods[0].get("/valkey/readiness").state() == "writes-withheld"
        })
        .await;
        let acknowledged = writes_around_the_thaw(&mut cluster, DEADLINE).await;
        assert!(acknowledged.len() >= ENOUGH, "{version:?}: {}", cluster.logs());
        cluster.wait_healthy().await;
        assert_eq!(missing(&cluster, &acknowledged).await, [""; 0], "{version:?}: {}", cluster.logs());
    }
}

/// The replica followed to the end and froze before the others held its primary for failed.
async fn primary_back_and_replica_silent(version: ServerVersion) -> Cluster {
    let mut cluster = Cluster::form(version, &JOURNAL, &["--boot-patience", "1"]).await;
    cluster.write(0).await;
    let id = cluster.pods[0].connect().await.cluster_my_id().await.unwrap();
    cluster.pods[SHARDS].server().freeze().unwrap();
    cluster.kill(0);
    for other in [1, 2] {
        eventually("the others hold it for failed", || async {
            let view = cluster.pods[other].connect().await.cluster_nodes().await.unwrap();
            view.find(&id).is_some_and(|node| node.has_failed())
        })
        .await;
    }
    cluster.launch(0);
    cluster
}

/// Every key that the returned primary acknowledged, before and after its replica is heard again: after enough writes, or when the
/// patience is over.
async fn writes_around_the_thaw(cluster: &mut Cluster, patience: Duration) -> Vec<String> {
    let (mut acknowledged, mut thawed) = (Vec::new(), None::<Instant>);
    let began = Instant::now();
    for index in KEYS.. {
        if write(cluster, index).await {
            acknowledged.push(key(0, index));
        }
        if thawed.is_none() && (acknowledged.len() >= ENOUGH || began.elapsed() > patience) {
            cluster.pods[SHARDS].server().thaw().unwrap();
            thawed = Some(Instant::now());
        }
        if thawed.is_some_and(|at| at.elapsed() > ELECTION) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    acknowledged
}

async fn write(cluster: &Cluster, index: usize) -> bool {
    let Some(mut connection) = try_connect(&cluster.pods[0]).await else { return false };
    connection.call(&["SET", &key(0, index), "value"]).await.is_ok()
}

async fn missing(cluster: &Cluster, acknowledged: &[String]) -> Vec<String> {
    let owner = if cluster.role(0).await == Some(true) { 0 } else { SHARDS };
    let mut connection = cluster.pods[owner].connect().await;
    let mut missing = Vec::new();
    for key in acknowledged {
        let found = connection.call(&["EXISTS", key]).await.unwrap();
        if !format!("{found:?}").contains('1') {
            missing.push(key.clone());
        }
    }
    missing
}
