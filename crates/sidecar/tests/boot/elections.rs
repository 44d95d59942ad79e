//! Elections that the nodes hold by themselves, with nobody but the sidecars beside them.

use crate::{
    cluster::{Cluster, KEYS, SHARDS, keys},
    pod::{Pod, eventually},
};
use std::collections::BTreeMap;
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

const SNAPSHOT: [(&str, &str); 1] = [("save", "")];
const JOURNAL: [(&str, &str); 3] = [("save", ""), ("appendonly", "yes"), ("appendfsync", "always")];

/// Nothing ends its connections, as when a machine loses its power.
#[tokio::test]
async fn a_primary_that_falls_silent_is_succeeded_without_an_operator() {
    for version in BOTH_VERSIONS {
        let mut cluster = Cluster::form(version, &SNAPSHOT, &[]).await;
        cluster.write(0).await;
        cluster.pods[0].server().freeze().unwrap();
        cluster.wait_role(SHARDS, true).await;
        cluster.pods[0].server().thaw().unwrap();
        cluster.wait_role(0, false).await;
        cluster.wait_healthy().await;
        assert_eq!([keys(&cluster.pods[0]).await, keys(&cluster.pods[SHARDS]).await], [KEYS; 2], "{version:?}");
    }
}

/// No operator is there, and the primary stays away. The replica lost its link some seconds before, well within what Valkey allows; what
/// the primary acknowledged since is on its disk, and may come back.
#[tokio::test]
async fn a_replica_that_its_primary_outlived_does_not_stand_for_election() {
    for version in BOTH_VERSIONS {
        let mut cluster = Cluster::form(version, &JOURNAL, &[]).await;
        cluster.unlink(0, 6).await;
        cluster.write_to_primary(0).await;
        cluster.kill(0);
        let refuses = || cluster.pods[SHARDS].log().contains("does not stand for election");
        eventually("it does not stand, or is elected", || async {
            refuses() || cluster.role(SHARDS).await == Some(true)
        })
        .await;
        assert_eq!(cluster.role(SHARDS).await, Some(false), "{version:?}: {}", cluster.logs());
    }
}

#[tokio::test]
async fn of_two_replicas_the_one_that_has_more_is_elected() {
    for version in BOTH_VERSIONS {
        let mut cluster = Cluster::form(version, &SNAPSHOT, &[]).await;
        let behind = second_replica(&mut cluster, version).await;
        cluster.pods[0].connect().await.call(&["SET", "{06S}before", "value"]).await.unwrap();
        eventually("the second replica follows", || async { keys(&cluster.pods[behind]).await == 1 }).await;
        cut_off(&cluster, behind).await;
        cluster.write_to_primary(0).await;
        eventually("the first replica has all", || async { keys(&cluster.pods[SHARDS]).await == KEYS + 1 }).await;
        cluster.kill(0);
        cluster.wait_role(SHARDS, true).await;
        assert_eq!(keys(&cluster.pods[SHARDS]).await, KEYS + 1, "{version:?}\n{}", cluster.logs());
        assert_eq!(cluster.role(behind).await, Some(false), "{version:?}");
    }
}

/// Of the first shard.
async fn second_replica(cluster: &mut Cluster, version: ServerVersion) -> usize {
    let mut parameters = vec![("repl-diskless-sync-delay", "0")];
    parameters.extend(SNAPSHOT);
    let mut pod = Pod::new(version, &parameters);
    pod.start_sidecar(&[]);
    pod.start_server();
    let mut primary = cluster.pods[0].connect().await;
    primary.cluster_meet("127.0.0.1", pod.port).await.unwrap();
    let id = primary.cluster_my_id().await.unwrap();
    eventually("the second replica found its primary", || async {
        pod.connect().await.cluster_replicate(&id).await.is_ok()
    })
    .await;
    cluster.pods.push(pod);
    cluster.wait_healthy().await;
    cluster.pods.len() - 1
}

/// It gets nothing more, as with a wrong password.
async fn cut_off(cluster: &Cluster, pod: usize) {
    let wrong = BTreeMap::from([("primaryauth".to_owned(), "wrong".to_owned())]);
    cluster.pods[pod].connect().await.config_set(&wrong).await.unwrap();
    cluster.pods[0].connect().await.call(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
    eventually("it has no link any more, and the other has", || async {
        let link = |pod: usize| async move {
            let info = cluster.pods[pod].connect().await.info(&["replication"]).await.unwrap();
            info.text("master_link_status") == Some("up")
        };
        !link(pod).await && link(SHARDS).await
    })
    .await;
}
