//! Changed settings reach the running server, and only as far as it accepts them.

use crate::pod::{Pod, config, eventually};
use std::collections::BTreeMap;
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

async fn wait_config(pod: &Pod, name: &str, value: &str) {
    eventually(&format!("{name} is {value}"), || async { config(pod, name).await == value }).await;
}

#[tokio::test]
async fn a_changed_value_is_applied_live_and_written_for_the_next_start() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[("hz", "20")]);
        pod.set(&[("hz", "30"), ("maxmemory", "64mb")]);
        wait_config(&pod, "hz", "30").await;
        assert_eq!(config(&pod, "maxmemory").await, "67108864");
        pod.wait_for("valkey.conf has it", |pod| pod.conf().contains("\nhz 30\n"));
        pod.server().kill().unwrap();
        pod.start_server();
        assert_eq!(config(&pod, "hz").await, "30");
    }
}

#[tokio::test]
async fn whether_a_lost_shard_stops_the_others_is_the_users_choice() {
    for version in BOTH_VERSIONS {
        let pod = Pod::settled(version, &[]);
        assert_eq!(config(&pod, "cluster-require-full-coverage").await, "no");
        pod.set(&[("cluster-require-full-coverage", "yes"), ("cluster-allow-reads-when-down", "yes")]);
        wait_config(&pod, "cluster-require-full-coverage", "yes").await;
        wait_config(&pod, "cluster-allow-reads-when-down", "yes").await;
        pod.wait_for("it is written down", |pod| pod.conf().contains("\ncluster-require-full-coverage yes\n"));
        pod.set(&[]);
        wait_config(&pod, "cluster-require-full-coverage", "no").await;
        wait_config(&pod, "cluster-allow-reads-when-down", "no").await;
    }
}

#[tokio::test]
async fn a_refused_value_is_reported_the_old_one_stays_and_the_others_get_through() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[("hz", "20"), ("maxmemory-samples", "5")]);
        pod.set(&[("hz", "bogus"), ("maxmemory-samples", "9")]);
        wait_config(&pod, "maxmemory-samples", "9").await;
        pod.wait_for("the refusal is told", |pod| pod.status()["refused"]["hz"]["value"] == "bogus");
        assert!(pod.status()["refused"]["hz"]["reason"].as_str().unwrap().contains("integer"));
        assert!(pod.get("/metrics").body.contains("valkey_sidecar_parameter_refused{parameter=\"hz\"} 1"));
        assert_eq!(config(&pod, "hz").await, "20");
        pod.wait_for("valkey.conf keeps the old", |pod| pod.conf().contains("\nhz 20\n"));
        pod.server().kill().unwrap();
        pod.start_server();
        pod.wait_settled();
        pod.set(&[("hz", "40"), ("maxmemory-samples", "9")]);
        wait_config(&pod, "hz", "40").await;
        pod.wait_for("the refusal is over", |pod| pod.status()["refused"].as_object().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_parameter_taken_out_goes_back_to_its_default_even_over_a_restart_of_the_sidecar() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[("hz", "20"), ("notify-keyspace-events", "KEA"), ("save", "60 100")]);
        assert_eq!(config(&pod, "save").await, "60 100");
        pod.stop_sidecar();
        pod.set(&[]);
        pod.start_sidecar(&[]);
        wait_config(&pod, "hz", "10").await;
        wait_config(&pod, "notify-keyspace-events", "").await;
        wait_config(&pod, "save", "3600 1 300 100 60 10000").await;
    }
}

/// `key-load-delay` is one that servers have and do not list, so nobody here knows it.
#[tokio::test]
async fn what_nobody_knows_is_set_where_the_server_has_it_and_keeps_none_from_starting() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[("maxmemroy", "1gb"), ("key-load-delay", "7"), ("hz", "20")]);
        wait_config(&pod, "key-load-delay", "7").await;
        pod.wait_for("the other is told", |pod| {
            let tried = &pod.status()["tried"];
            tried["key-load-delay"] == "" && tried["maxmemroy"].as_str().is_some_and(|why| why.contains("no such"))
        });
        assert_eq!((config(&pod, "hz").await.as_str(), pod.status()["refused"].clone()), ("20", serde_json::json!({})));
        assert!(!pod.conf().contains("\nmaxmemroy") && !pod.conf().contains("\nkey-load-delay"), "{}", pod.conf());
        pod.server().kill().unwrap();
        pod.start_server();
        wait_config(&pod, "key-load-delay", "7").await;
        pod.set(&[("key-load-delay", "many"), ("hz", "20")]);
        pod.wait_for("a bad value is told", |pod| pod.status()["tried"]["key-load-delay"] != "");
        pod.set(&[("hz", "20")]);
        wait_config(&pod, "key-load-delay", "0").await;
    }
}

#[tokio::test]
async fn what_needs_a_restart_is_pending_until_the_restart() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[]);
        pod.set(&[("tcp-backlog", "128"), ("hz", "20")]);
        wait_config(&pod, "hz", "20").await;
        pod.wait_for("it is pending", |pod| pod.status()["pendingRestart"][0]["parameter"] == "tcp-backlog");
        assert!(
            pod.get("/metrics").body.contains("valkey_sidecar_parameter_pending_restart{parameter=\"tcp-backlog\"} 1")
        );
        pod.wait_for("it is in valkey.conf", |pod| pod.conf().contains("\ntcp-backlog 128\n"));
        pod.server().kill().unwrap();
        pod.start_server();
        pod.wait_settled();
        pod.wait_for("nothing is pending", |pod| pod.status()["pendingRestart"] == serde_json::json!([]));
    }
}

#[tokio::test]
async fn a_value_changed_by_hand_is_put_right() {
    let pod = Pod::settled(ServerVersion::V9_1, &[("hz", "20")]);
    let by_hand = BTreeMap::from([("hz".to_owned(), "99".to_owned())]);
    pod.connect().await.config_set(&by_hand).await.unwrap();
    wait_config(&pod, "hz", "20").await;
}

async fn set_mark(pod: &Pod, value: &str) {
    let mark = BTreeMap::from([("replica-priority".to_owned(), value.to_owned())]);
    pod.connect().await.config_set(&mark).await.unwrap();
}

/// By it pods tell each other that they stop.
#[tokio::test]
async fn a_mark_of_a_stop_that_nobody_asked_for_is_put_back_also_by_a_sidecar_that_starts() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[]);
        set_mark(&pod, "0").await;
        wait_config(&pod, "replica-priority", "100").await;
        pod.stop_sidecar();
        set_mark(&pod, "0").await;
        pod.start_sidecar(&[]);
        wait_config(&pod, "replica-priority", "100").await;
    }
}

#[tokio::test]
async fn the_mark_of_a_stop_outlives_the_sidecar_and_ends_with_the_process() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[]);
        assert_eq!(pod.get("/valkey/pre-stop").status, 200);
        pod.stop_sidecar();
        set_mark(&pod, "7").await;
        pod.start_sidecar(&[]);
        wait_config(&pod, "replica-priority", "0").await;
        pod.server().kill().unwrap();
        pod.start_server();
        pod.wait_settled();
        wait_config(&pod, "replica-priority", "100").await;
    }
}

#[tokio::test]
async fn broken_settings_leave_the_good_ones_in_force() {
    let pod = Pod::settled(ServerVersion::V9_1, &[("hz", "20")]);
    pod.set_text("{");
    pod.wait_for("the problem is told", |pod| pod.get("/healthz").body.contains("is not valid"));
    assert_eq!((pod.get("/healthz").status, config(&pod, "hz").await.as_str()), (200, "20"));
    pod.set(&[("hz", "25")]);
    wait_config(&pod, "hz", "25").await;
}
