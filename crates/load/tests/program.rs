//! The program itself: what it prints, how it ends, and its exit codes.
#![allow(clippy::expect_used, reason = "a helper of tests may fail the test")]

use load::{
    Report,
    testing::{ProcessCluster, wait_until},
};
use std::{
    process::{Child, Command, Output, Stdio},
    time::Duration,
};
use valkey::testing::ServerVersion;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_valkey-load"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str]) -> Output {
    program(arguments).output().expect("the program")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn terminate(child: &Child) {
    let killed = Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(killed.success());
}

async fn cluster() -> ProcessCluster {
    ProcessCluster::start(ServerVersion::V9_1, 3, 0, Duration::from_secs(5)).await.expect("a cluster")
}

#[tokio::test]
async fn a_key_is_put_through_one_node_and_got_through_another() {
    let cluster = cluster().await;
    let seeds = cluster.seeds();
    for key in ["one", "two", "three", "four"] {
        assert_eq!(text(&output(&["put", "--seed", &seeds[0], key, "worth"]).stdout), "OK\n");
        let got = output(&["get", "--seed", &seeds[1], key]);
        assert_eq!((text(&got.stdout).as_str(), got.status.code()), ("worth\n", Some(0)));
    }
    let missing = output(&["get", "--seed", &seeds[2], "none"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("no key none"));
}

#[tokio::test]
async fn sigterm_ends_the_writing_with_a_report_and_a_journal_tells_of_a_later_loss() {
    let cluster = cluster().await;
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal").display().to_string();
    let seeds = cluster.seeds().join(",");
    let child = program(&["run", "--seed", &seeds, "--rate", "300", "--journal", &journal, "--output", "json"])
        .spawn()
        .expect("the program");
    let lines = async || Ok(std::fs::read_to_string(&journal).unwrap_or_default().lines().count() > 200);
    wait_until("the journal to fill", lines).await.expect("a journal");
    terminate(&child);
    let ended = child.wait_with_output().expect("its output");
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let report: Report = serde_json::from_slice(&ended.stdout).expect("a report");
    let remembered = std::fs::read_to_string(&journal).expect("a journal").lines().count() - 1;
    assert_eq!(report.acknowledged, remembered as u64);
    assert!(report.is_sound());
    let check = || output(&["check", "--seed", &seeds, "--journal", &journal]);
    assert_eq!(check().status.code(), Some(0));
    cluster.connect(0).await.expect("a connection").call(&["FLUSHALL"]).await.expect("an empty node");
    let checked = check();
    assert_eq!(checked.status.code(), Some(1));
    assert!(text(&checked.stdout).contains("DATA LOST"), "{}", text(&checked.stdout));
}

#[tokio::test]
async fn a_checker_that_was_killed_leaves_all_its_acknowledgements() {
    let cluster = cluster().await;
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal").display().to_string();
    let seeds = cluster.seeds().join(",");
    let mut child = program(&["run", "--seed", &seeds, "--journal", &journal]).spawn().expect("the program");
    let lines = || std::fs::read_to_string(&journal).unwrap_or_default().lines().count();
    wait_until("the journal to fill", async || Ok(lines() > 500)).await.expect("a journal");
    child.kill().and_then(|()| child.wait()).expect("a dead checker");
    let checked = output(&["check", "--seed", &seeds, "--journal", &journal, "--output", "json"]);
    let report: Report = serde_json::from_slice(&checked.stdout).expect("a report");
    assert!(report.is_sound() && report.acknowledged >= 500, "{report}");
}

#[test]
fn what_cannot_be_found_out_is_neither_good_nor_lost() {
    let nobody = output(&["run", "--seed", "127.0.0.1:1", "--duration", "1s", "--covered-within", "10ms"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(&nobody.stderr).contains("127.0.0.1:1"), "{}", text(&nobody.stderr));
    let no_journal = output(&["check", "--seed", "127.0.0.1:1", "--journal", "nowhere"]);
    assert_eq!(no_journal.status.code(), Some(2));
    assert!(text(&no_journal.stderr).contains("--journal") && text(&no_journal.stderr).contains("nowhere"));
}
