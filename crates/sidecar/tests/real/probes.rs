//! Each state Valkey can be in is told apart, and only a silent or absent server fails its liveness.

use crate::pod::{DEADLINE, Pod, config, eventually};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use std::{
    fs,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};
use valkey::testing::{BOTH_VERSIONS, ServerVersion, TestServer};

const READINESS: &str = "/valkey/readiness";
const LIVENESS: &str = "/valkey/liveness";
const STARTUP: &str = "/valkey/startup";

fn statuses(pod: &Pod) -> [u16; 3] {
    [STARTUP, LIVENESS, READINESS].map(|path| pod.get(path).status)
}

async fn own_all_slots(pod: &Pod) {
    pod.connect().await.cluster_add_slots(0, 16383).await.unwrap();
    eventually("a cluster of one is up", || async { pod.connect().await.cluster_info().await.unwrap().state_ok }).await;
}

#[tokio::test]
async fn a_node_is_starting_until_valkey_speaks_and_not_ready_until_its_cluster_is_whole() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::new(version, &[]);
        pod.start_sidecar(&[]);
        assert_eq!((pod.get(STARTUP).state(), statuses(&pod)), ("starting".into(), [503, 503, 503]));
        pod.start_server();
        let alone = pod.wait_state(READINESS, "cluster-down");
        assert!(alone.body.contains("no cluster has taken it in yet"), "{}", alone.body);
        assert_eq!(statuses(&pod), [200, 200, 503]);
        own_all_slots(&pod).await;
        pod.wait_state(READINESS, "ready");
        assert_eq!(statuses(&pod), [200, 200, 200]);
    }
}

#[test]
fn a_killed_server_is_dead() {
    let mut pod = Pod::settled(ServerVersion::V9_1, &[]);
    pod.server().kill().unwrap();
    assert_eq!((pod.get(LIVENESS).state(), statuses(&pod)), ("dead".into(), [503, 503, 503]));
}

#[test]
fn a_hung_server_fails_and_the_sidecar_itself_answers_meanwhile() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::new(version, &[]);
        pod.start_sidecar(&["--probe-deadline", "5"]);
        pod.start_server();
        pod.wait_settled();
        pod.server().freeze().unwrap();
        thread::scope(|scope| {
            let probes: Vec<_> = (0..8).map(|_| scope.spawn(|| pod.get(LIVENESS))).collect();
            for path in ["/healthz", "/metrics", "/status"] {
                assert_eq!(pod.get(path).status, 200);
            }
            assert!(probes.iter().all(|probe| !probe.is_finished()), "the sidecar waited with the probes");
            for probe in probes {
                let answer = probe.join().unwrap();
                assert_eq!((answer.status, answer.state().as_str()), (503, "hung"));
            }
        });
        assert!(pod.get("/metrics").body.contains("failed_probes_total{probe=\"liveness\",state=\"hung\"} 8"));
        pod.server().thaw().unwrap();
        pod.wait_settled();
    }
}

#[tokio::test]
async fn a_loading_server_is_alive_and_says_how_far_it_is() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[]);
        own_all_slots(&pod).await;
        let mut connection = pod.connect().await;
        for index in 0..2000 {
            connection.call(&["SET", &format!("key{index}"), &"x".repeat(100)]).await.unwrap();
        }
        connection.call(&["SAVE"]).await.unwrap();
        pod.server().kill().unwrap();
        pod.try_start_server(&["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"]).unwrap();
        let answer = pod.wait_state(READINESS, "loading");
        assert!(answer.json()["detail"].as_str().unwrap().contains("% loaded"), "{}", answer.body);
        assert_eq!(statuses(&pod), [200, 200, 503]);
        pod.wait_settled();
    }
}

/// A pod that replicates a server outside; the server owns all slots.
async fn replica_of_a_primary(version: ServerVersion, parameters: &[(&str, &str)]) -> (Pod, TestServer) {
    let quick = ["--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0"];
    let primary = TestServer::start(version, &quick).unwrap();
    let mut other = primary.connect().await.unwrap();
    other.cluster_add_slots(0, 16383).await.unwrap();
    let pod = Pod::settled(version, parameters);
    pod.connect().await.cluster_meet("127.0.0.1", primary.port).await.unwrap();
    let id = other.cluster_my_id().await.unwrap();
    let replicate = || async { pod.connect().await.cluster_replicate(&id).await.is_ok() };
    eventually("the pod became a replica", replicate).await;
    pod.wait_state(READINESS, "ready");
    assert_eq!(pod.get(READINESS).json()["detail"], "replica");
    (pod, primary)
}

#[tokio::test]
async fn a_replica_without_its_primary_is_alive_and_not_in_sync() {
    for version in BOTH_VERSIONS {
        for stale in ["yes", "no"] {
            let (pod, mut primary) = replica_of_a_primary(version, &[("replica-serve-stale-data", stale)]).await;
            primary.kill().unwrap();
            let answer = pod.wait_state(READINESS, "replica-not-in-sync");
            assert_eq!((answer.status, pod.get(LIVENESS).status), (503, 200));
        }
    }
}

#[tokio::test]
async fn a_busy_script_is_told_and_does_not_kill() {
    for version in BOTH_VERSIONS {
        let pod = Pod::settled(version, &[("busy-reply-threshold", "50")]);
        let mut connection = pod.connect().await;
        connection.renew(Duration::from_secs(60));
        let script = tokio::spawn(async move { connection.call(&["EVAL", "while true do end", "0"]).await.map(drop) });
        eventually("the script is noticed", || async { pod.get(READINESS).state() == "busy-script" }).await;
        assert_eq!(statuses(&pod), [200, 200, 503]);
        pod.connect().await.call(&["SCRIPT", "KILL"]).await.unwrap();
        assert!(script.await.unwrap().is_err());
        pod.wait_settled();
    }
}

#[tokio::test]
async fn a_server_without_memory_stays_reachable_and_says_so() {
    for version in BOTH_VERSIONS {
        let pod = Pod::settled(version, &[]);
        own_all_slots(&pod).await;
        pod.set(&[("maxmemory", "500kb")]);
        let answer = pod.wait_state(READINESS, "out-of-memory");
        assert_eq!((answer.status, statuses(&pod)), (200, [200, 200, 200]));
    }
}

#[tokio::test]
async fn a_server_that_turns_clients_away_is_alive_and_not_ready() {
    for version in BOTH_VERSIONS {
        let pod = Pod::settled(version, &[]);
        let mut holder = pod.connect().await;
        holder.call(&["CONFIG", "SET", "maxclients", "1"]).await.unwrap();
        assert_eq!((pod.get(READINESS).state(), statuses(&pod)), ("too-many-clients".into(), [200, 200, 503]));
    }
}

#[tokio::test]
async fn a_password_nobody_told_the_sidecar_does_not_kill() {
    let pod = Pod::settled(ServerVersion::V9_1, &[]);
    pod.connect().await.call(&["CONFIG", "SET", "requirepass", "secret"]).await.unwrap();
    assert_eq!((pod.get(READINESS).state(), statuses(&pod)), ("authentication-required".into(), [200, 200, 503]));
}

#[tokio::test]
async fn a_node_of_a_cluster_without_all_its_slots_is_not_ready() {
    let pod = Pod::settled(ServerVersion::V9_1, &[]);
    let other = TestServer::start(ServerVersion::V9_1, &["--cluster-enabled", "yes"]).unwrap();
    pod.connect().await.cluster_meet("127.0.0.1", other.port).await.unwrap();
    pod.wait_for("the two know each other", |pod| pod.get(READINESS).body.contains("2 nodes are known"));
    let answer = pod.wait_state(READINESS, "cluster-down");
    assert_eq!((answer.status, pod.get(LIVENESS).status), (503, 200));
}

/// A small file system of its own on the pod's data directory.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(folder: &std::path::Path) -> Self {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(folder).status();
        let mounted = mounted.is_ok_and(|status| status.success());
        assert!(
            mounted,
            "a small file system could not be mounted: run as root, or leave this test out with --skip disk"
        );
        Self(folder.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_told_from_other_trouble_and_does_not_kill() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::new(version, &[]);
        let _disk = SmallDisk::mount(&pod.data);
        pod.start_sidecar(&[]);
        pod.start_server();
        pod.wait_settled();
        own_all_slots(&pod).await;
        std::fs::write(pod.data.join("filler"), vec![0; 5 << 20]).unwrap();
        let mut connection = pod.connect().await;
        for index in 0..1500 {
            connection.call(&["SET", &format!("key{index}"), &format!("{index:01000}")]).await.unwrap();
        }
        connection.call(&["CONFIG", "SET", "rdbcompression", "no"]).await.unwrap();
        connection.call(&["BGSAVE"]).await.unwrap();
        let answer = pod.wait_state(READINESS, "disk-full");
        assert_eq!(statuses(&pod), [200, 200, 503], "{}", answer.body);
        pod.set(&[("hz", "20")]);
        eventually("settings are applied all the same", || async { config(&pod, "hz").await == "20" }).await;
        std::fs::remove_file(pod.data.join("filler")).unwrap();
        connection.call(&["BGSAVE"]).await.unwrap();
        pod.wait_settled();
    }
}

#[test]
fn a_client_that_says_nothing_does_not_hold_up_the_others() {
    let pod = Pod::settled(ServerVersion::V9_1, &[]);
    let silent: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(("127.0.0.1", pod.health)).unwrap()).collect();
    assert_eq!([LIVENESS, "/healthz"].map(|path| pod.get(path).status), [200, 200]);
    drop(silent);
}

/// The record is compared before it is written anew; as a FIFO it hangs like the volume it is on.
#[tokio::test]
async fn a_volume_that_hangs_holds_up_no_probe() {
    let pod = Pod::settled(ServerVersion::V9_1, &[]);
    let record = pod.data.join("sidecar-record.json");
    fs::remove_file(&record).unwrap();
    let (hanging, ()) = tokio::join!(hang(&record), async { pod.set(&[("hz", "20")]) });
    for path in [STARTUP, LIVENESS] {
        let answer = pod.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    drop(hanging);
}

/// Replaces the file by one that hangs as the volume it is on would. Returns when the sidecar waits for it, until it is dropped.
async fn hang(file: &Path) -> fs::File {
    mknodat(CWD, file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    // Opens only when the sidecar reads; and as long as it is held, the reader waits for more.
    let not_waiting = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    let open = || fs::OpenOptions::new().write(true).custom_flags(not_waiting).open(file);
    let until = Instant::now() + DEADLINE;
    loop {
        match open() {
            Ok(file) => return file,
            Err(error) => assert!(Instant::now() < until, "nobody reads {}: {error}", file.display()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_volume_that_hangs_when_valkey_has_ended_holds_up_no_probe() {
    let mut pod = Pod::settled(ServerVersion::V9_1, &[]);
    // Long enough for every part of the sidecar to have seen it run.
    own_all_slots(&pod).await;
    let nodes = pod.data.join("nodes.conf");
    fs::remove_file(&nodes).unwrap();
    let (hanging, _) = tokio::join!(hang(&nodes), async { pod.server().kill().unwrap() });
    for path in [STARTUP, LIVENESS, "/healthz", "/status"] {
        assert!(pod.get(path).status > 0, "{path}");
    }
    fs::remove_file(&nodes).unwrap();
    drop(hanging);
    pod.start_server();
    pod.wait_settled();
}
