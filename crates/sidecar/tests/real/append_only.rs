//! The append-only file is switched on and off without losing a key, whenever the pod restarts.

use crate::pod::{Pod, config, eventually};
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

/// With `everysec` a SIGKILL may take the last two seconds with it; these tests ask about everything else.
const ON: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];
const KEYS: usize = 200;

async fn fill(pod: &Pod, prefix: &str) {
    let mut connection = pod.connect().await;
    if connection.cluster_nodes().await.unwrap().myself().unwrap().slots.is_empty() {
        connection.cluster_add_slots(0, 16383).await.unwrap();
    }
    let is_up = || async { pod.connect().await.cluster_info().await.unwrap().state_ok };
    eventually("a cluster of one is up", is_up).await;
    for index in 0..KEYS {
        connection.call(&["SET", &format!("{prefix}{index}"), "value"]).await.unwrap();
    }
}

async fn keys(pod: &Pod) -> String {
    pod.connect().await.call(&["DBSIZE"]).await.unwrap().into_text()
}

fn restart(pod: &mut Pod) {
    pod.server().kill().unwrap();
    pod.start_server();
    pod.wait_settled();
}

#[tokio::test]
async fn a_server_with_a_dump_never_starts_empty_because_the_append_only_file_was_asked_for() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[]);
        fill(&pod, "a").await;
        pod.server().terminate().unwrap();
        assert!(pod.data.join("dump.rdb").exists());
        pod.stop_sidecar();
        pod.set(&ON);
        pod.start_sidecar(&[]);
        pod.start_server();
        pod.wait_settled();
        assert_eq!(keys(&pod).await, KEYS.to_string());
        pod.wait_for("valkey.conf follows", |pod| pod.conf().contains("\nappendonly yes\n"));
        fill(&pod, "b").await;
        restart(&mut pod);
        assert_eq!((keys(&pod).await, config(&pod, "appendonly").await), ((2 * KEYS).to_string(), "yes".into()));
    }
}

#[tokio::test]
async fn valkey_conf_says_no_until_the_first_append_only_file_is_complete() {
    // Slow enough that a kill hits the middle of the first rewrite.
    let mut pod = Pod::settled(ServerVersion::V9_1, &[("rdb-key-save-delay", "10000")]);
    fill(&pod, "a").await;
    pod.connect().await.call(&["CONFIG", "SET", "rdb-key-save-delay", "0"]).await.unwrap();
    pod.connect().await.call(&["SAVE"]).await.unwrap();
    pod.set(&[("appendonly", "yes"), ("rdb-key-save-delay", "10000")]);
    pod.wait_for("the first file is being written", |pod| pod.status()["appendOnly"] == "writing-first-file");
    assert!(pod.conf().contains("\nappendonly no\n"), "{}", pod.conf());
    restart(&mut pod);
    assert_eq!(keys(&pod).await, KEYS.to_string());
}

fn switch(pod: &Pod, on: bool) {
    if on {
        pod.set(&ON)
    } else {
        pod.set(&[])
    }
    let (line, folder) = (if on { "\nappendonly yes\n" } else { "\nappendonly no\n" }, pod.data.join("appendonlydir"));
    pod.wait_for("valkey.conf and the files follow the wish", |pod| {
        pod.conf().contains(line) && folder.exists() == on && pod.status()["appendOnly"] == "settled"
    });
}

#[tokio::test]
async fn switching_off_leaves_a_snapshot_behind_and_switching_on_again_works() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &ON);
        for (on, prefix) in [(false, "a"), (true, "b"), (false, "c"), (true, "d")] {
            fill(&pod, prefix).await;
            switch(&pod, on);
            assert_eq!(config(&pod, "appendonly").await, if on { "yes" } else { "no" });
        }
        restart(&mut pod);
        assert_eq!(keys(&pod).await, (4 * KEYS).to_string());
        switch(&pod, false);
        restart(&mut pod);
        assert_eq!(keys(&pod).await, (4 * KEYS).to_string());
    }
}

#[tokio::test]
async fn a_crash_at_any_moment_of_switching_off_and_on_loses_nothing_that_was_there_before() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &ON);
        fill(&pod, "a").await;
        for (round, pause) in [0, 150, 400, 900, 1300, 2100].into_iter().enumerate() {
            // Where the crash hits depends on the pause; the claim holds for every point it may hit.
            if round % 2 == 0 {
                pod.set(&[])
            } else {
                pod.set(&ON)
            }
            std::thread::sleep(std::time::Duration::from_millis(pause));
            restart(&mut pod);
            assert_eq!(keys(&pod).await, KEYS.to_string(), "round {round} on {}", version.line());
        }
    }
}

#[tokio::test]
async fn files_that_hold_the_data_are_read_even_when_they_are_no_longer_wanted() {
    for version in BOTH_VERSIONS {
        let mut pod = Pod::settled(version, &[("appendonly", "yes"), ("appendfsync", "always"), ("save", "")]);
        fill(&pod, "a").await;
        pod.server().kill().unwrap();
        pod.stop_sidecar();
        pod.set(&[("save", "")]);
        pod.start_sidecar(&[]);
        pod.start_server();
        pod.wait_settled();
        assert_eq!(keys(&pod).await, KEYS.to_string());
        pod.wait_for("it is switched off", |pod| pod.conf().contains("\nappendonly no\n"));
        restart(&mut pod);
        assert_eq!(keys(&pod).await, KEYS.to_string());
    }
}
