//! Every process of a cluster dies at the same moment.

use crate::cluster::{Cluster, KEYS, SHARDS, keys};
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

async fn kill_all_and_start_all(cluster: &mut Cluster) {
    let all = 0..2 * SHARDS;
    all.clone().for_each(|pod| cluster.kill(pod));
    all.for_each(|pod| cluster.launch(pod));
}

async fn roles_and_keys_are_kept(version: ServerVersion, parameters: &[(&str, &str)], save: bool) {
    let mut cluster = Cluster::form(version, parameters, &["--boot-patience", "4"]).await;
    for shard in 0..SHARDS {
        cluster.write(shard).await;
        if save {
            cluster.pods[shard].connect().await.call(&["SAVE"]).await.unwrap();
        }
    }
    kill_all_and_start_all(&mut cluster).await;
    for pod in 0..2 * SHARDS {
        cluster.wait_role(pod, pod < SHARDS).await;
    }
    cluster.wait_healthy().await;
    for pod in 0..2 * SHARDS {
        assert_eq!(keys(&cluster.pods[pod]).await, KEYS, "pod {pod}: {}", cluster.logs());
        assert_eq!(cluster.role(pod).await, Some(pod < SHARDS));
    }
}

#[tokio::test]
async fn with_append_only_files_all_come_back_as_what_they_were_and_with_all_they_had() {
    for version in BOTH_VERSIONS {
        let journal = [("save", ""), ("appendonly", "yes"), ("appendfsync", "always")];
        roles_and_keys_are_kept(version, &journal, false).await;
    }
}

#[tokio::test]
async fn with_snapshots_all_come_back_as_what_they_were_and_with_all_they_had() {
    for version in BOTH_VERSIONS {
        roles_and_keys_are_kept(version, &[], true).await;
    }
}

/// All memory is gone and nothing was ever written to a disk: there is no better copy to wait for.
#[tokio::test]
async fn without_any_data_anywhere_the_cluster_comes_back_empty_instead_of_never() {
    let mut cluster = Cluster::form(ServerVersion::V9_1, &[("save", "")], &["--boot-patience", "2"]).await;
    cluster.write(0).await;
    kill_all_and_start_all(&mut cluster).await;
    for pod in 0..2 * SHARDS {
        cluster.wait_role(pod, pod < SHARDS).await;
    }
    cluster.wait_healthy().await;
}
