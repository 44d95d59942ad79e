//! The gate itself: readers that die, a sidecar that dies, CONFIG REWRITE, a pod that stops while it waits.

use crate::{
    cluster::{Cluster, SHARDS, try_connect},
    pod::{DEADLINE, Pod, eventually},
};
use std::{fs, os::unix::fs::FileTypeExt, time::Duration};
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

async fn waiting(version: ServerVersion) -> Cluster {
    let mut cluster = Cluster::form(version, &[("save", "")], &[]).await;
    cluster.write(0).await;
    cluster.kill(0);
    cluster.launch(0);
    wait_at_gate(&cluster).await;
    cluster
}

async fn wait_at_gate(cluster: &Cluster) {
    let state = || async { cluster.pods[0].get("/valkey/readiness").state() == "waiting-at-gate" };
    eventually("it waits at the gate", state).await;
}

#[tokio::test]
async fn a_valkey_that_dies_while_it_waits_and_one_that_comes_after_it_both_wait() {
    for version in BOTH_VERSIONS {
        let mut cluster = waiting(version).await;
        for _ in 0..3 {
            cluster.kill(0);
            cluster.launch(0);
        }
        wait_at_gate(&cluster).await;
        assert!(cluster.pods[0].server().ended().unwrap().is_none());
        cluster.wait_role(SHARDS, true).await;
        cluster.wait_role(0, false).await;
    }
}

#[tokio::test]
async fn a_sidecar_that_dies_lets_nobody_through_and_the_next_one_decides() {
    for version in BOTH_VERSIONS {
        let mut cluster = waiting(version).await;
        cluster.pods[0].stop_sidecar();
        cluster.wait_role(SHARDS, true).await;
        assert!(try_connect(&cluster.pods[0]).await.is_none(), "nobody lets it start");
        assert!(cluster.pods[0].server().ended().unwrap().is_none(), "and it still waits");
        cluster.pods[0].start_sidecar(&[]);
        cluster.wait_role(0, false).await;
        cluster.wait_healthy().await;
    }
}

#[tokio::test]
async fn a_pod_that_stops_does_not_wait_for_a_valkey_that_hears_no_signal() {
    let mut cluster = waiting(ServerVersion::V9_1).await;
    let answer = cluster.pods[0].get("/valkey/pre-stop");
    assert_eq!(answer.status, 200);
    let pod = &mut cluster.pods[0];
    let until = std::time::Instant::now() + DEADLINE;
    while pod.server().ended().unwrap().is_none() {
        assert!(std::time::Instant::now() < until, "{}", pod.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_sidecar_restarted_beside_a_running_valkey_leaves_it_alone() {
    let mut pod = Pod::settled(ServerVersion::V8_1, &[]);
    let run = pod.connect().await.info(&["server"]).await.unwrap();
    pod.stop_sidecar();
    // An older sidecar left a file there.
    let conf = pod.run_dir().join("valkey.conf");
    fs::remove_file(&conf).unwrap();
    fs::write(&conf, "port 1\n").unwrap();
    pod.start_sidecar(&[]);
    pod.wait_settled();
    let again = pod.connect().await.info(&["server"]).await.unwrap();
    assert_eq!(run.text("run_id"), again.text("run_id"));
    pod.wait_for("the FIFO is back", is_fifo);
}

fn is_fifo(pod: &Pod) -> bool {
    fs::symlink_metadata(pod.run_dir().join("valkey.conf")).is_ok_and(|data| data.file_type().is_fifo())
}

#[tokio::test]
async fn config_rewrite_is_answered_and_the_next_start_is_still_guarded() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[("hz", "20")]);
        let mut connection = pod.connect().await;
        let rewrite = tokio::time::timeout(DEADLINE, connection.call(&["CONFIG", "REWRITE"])).await;
        assert_eq!(rewrite.unwrap().unwrap().into_text(), "OK");
        eventually("the FIFO is back", || async { is_fifo(&pod) }).await;
        pod.server().kill().unwrap();
        pod.start_server();
        pod.wait_settled();
    }
}
