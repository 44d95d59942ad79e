//! valkey.conf: real servers start with it and have what was asked.

use crate::pod::{Pod, config};
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

/// What a spec with everything set turns into; the last two are known to 9.1 only and to 8.1 only.
const FULL: [(&str, &str, &str); 16] = [
    ("save", "3600 1 300 100", "3600 1 300 100"),
    ("appendonly", "yes", "yes"),
    ("appendfsync", "always", "always"),
    ("auto-aof-rewrite-percentage", "50", "50"),
    ("auto-aof-rewrite-min-size", "32mb", "33554432"),
    ("repl-diskless-sync", "no", "no"),
    ("min-replicas-to-write", "1", "1"),
    ("min-replicas-max-lag", "7", "7"),
    ("maxmemory", "100mb", "104857600"),
    ("maxmemory-policy", "allkeys-lru", "allkeys-lru"),
    ("notify-keyspace-events", "KEA", "AKE"),
    (
        "client-output-buffer-limit",
        "normal 0 0 0 replica 128mb 32mb 30",
        "normal 0 0 0 slave 134217728 33554432 30 pubsub 33554432 8388608 60",
    ),
    ("io-threads", "2", "2"),
    ("tcp-backlog", "128", "128"),
    ("mptcp", "no", "no"),
    ("sanitize-dump-payload", "yes", "yes"),
];

#[tokio::test]
async fn a_server_starts_with_nothing_but_our_own_parameters() {
    for version in BOTH_VERSIONS {
        let pod = Pod::settled(version, &[]);
        let nodes = pod.connect().await.cluster_nodes().await.unwrap();
        let myself = nodes.myself().unwrap();
        assert_eq!(myself.address, Some(([127, 0, 0, 1], pod.port).into()));
        assert_eq!(myself.hostname.as_deref(), Some("poc-0.poc-headless.default.svc"));
        assert_eq!(config(&pod, "cluster-announce-human-nodename").await, "poc-0");
        assert_eq!(config(&pod, "save").await, "3600 1 300 100 60 10000");
        assert!(pod.data.join("nodes.conf").exists());
        let expected = if version == ServerVersion::V9_1 { "failover" } else { "default" };
        assert_eq!(config(&pod, "shutdown-on-sigterm").await, expected);
    }
}

#[tokio::test]
async fn a_server_with_everything_set_has_what_was_asked() {
    for version in BOTH_VERSIONS {
        let asked: Vec<_> = FULL.iter().map(|(name, value, _)| (*name, *value)).collect();
        let pod = Pod::settled(version, &asked);
        let foreign = if version == ServerVersion::V9_1 { "sanitize-dump-payload" } else { "mptcp" };
        for (name, _, expected) in FULL.iter().filter(|(name, ..)| *name != foreign) {
            assert_eq!(config(&pod, name).await, *expected, "{name} on {}", version.line());
        }
        let status = pod.status();
        assert!(status["ignored"][foreign].as_str().unwrap().contains("does not know it"), "{status}");
        assert!(status["refused"].as_object().unwrap().is_empty(), "{status}");
        assert!(status["pendingRestart"].as_array().unwrap().is_empty(), "{status}");
    }
}

#[tokio::test]
async fn a_value_full_of_quotes_and_line_ends_stays_a_value() {
    for version in BOTH_VERSIONS {
        let value = "{title} \"x\" \\ \nport 1";
        let mut pod = Pod::new(version, &[("proc-title-template", value)]);
        pod.start_sidecar(&[]);
        pod.start_server();
        assert_eq!(config(&pod, "proc-title-template").await, value);
    }
}

#[tokio::test]
async fn maxmemory_leaves_headroom_below_the_containers_limit() {
    let mut pod = Pod::new(ServerVersion::V9_1, &[]);
    pod.start_sidecar(&["--memory-limit", "1073741824"]);
    pod.start_server();
    assert_eq!(config(&pod, "maxmemory").await, "805306368");
}

#[tokio::test]
async fn a_bad_value_present_from_the_beginning_does_not_keep_valkey_from_starting_for_ever() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::new(version, &[("maxmemory-policy", "bogus"), ("hz", "20")]);
        pod.start_sidecar(&["--start-patience", "0.3"]);
        let error = pod.try_start_server(&[]).unwrap_err().to_string();
        assert!(error.contains("FATAL CONFIG FILE ERROR"), "{error}");
        pod.wait_for("the doubtful value has left valkey.conf", |pod| !pod.conf().contains("bogus"));
        pod.start_server();
        pod.wait_settled();
        assert_eq!(
            (config(&pod, "hz").await, config(&pod, "maxmemory-policy").await),
            ("20".into(), "noeviction".into())
        );
        assert_eq!(pod.status()["refused"]["maxmemory-policy"]["value"], "bogus");
        pod.wait_for("the accepted value is back in valkey.conf", |pod| pod.conf().contains("\nhz 20\n"));
        assert!(!pod.conf().contains("bogus"));
    }
}

#[test]
fn render_prints_what_run_writes_and_changes_nothing() {
    let mut pod = Pod::new(ServerVersion::V8_1, &[("hz", "20"), ("mptcp", "yes")]);
    let output = pod.command("render").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && printed.contains("\nhz 20\n") && printed.contains("# mptcp: left out"),
        "{printed}"
    );
    assert_eq!(pod.conf(), "");
    pod.start_sidecar(&[]);
    assert_eq!(pod.conf(), printed);
}

#[test]
fn settings_that_cannot_be_used_hold_valkey_back_and_say_why() {
    let mut pod = Pod::new(ServerVersion::V9_1, &[]);
    pod.set_text("{\"settingsVersion\": 9}");
    let mut command = pod.command("run");
    command.args(["--health-address", &format!("127.0.0.1:{}", pod.health)]).stderr(std::process::Stdio::null());
    pod.sidecar = Some(command.spawn().unwrap());
    pod.wait_for("the sidecar answers", |pod| pod.try_get("/healthz").is_some());
    pod.wait_for("the reason is told", |pod| pod.get("/healthz").body.contains("is not valid"));
    assert_eq!((pod.get("/healthz").status, pod.conf().as_str()), (503, ""));
    pod.set(&[]);
    pod.wait_for("good settings are taken", |pod| pod.get("/healthz").status == 200);
}
