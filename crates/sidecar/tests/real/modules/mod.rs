//! Modules are loaded by real servers, and a server that cannot load one does not start.

use crate::pod::Pod;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use valkey::testing::BOTH_VERSIONS;

/// Compiled anew for each test: it takes a blink.
fn tiny(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/modules/tiny.c");
    let file = folder.join("tiny.so");
    let compiler = Command::new("cc").args(["-shared", "-fPIC", "-nostdlib", "-o"]).arg(&file).arg(source).status();
    assert!(compiler.unwrap().success(), "cc, which Rust links with too");
    file
}

/// A pod whose sidecar was told of one module; its server is not started yet.
fn pod_with(version: valkey::testing::ServerVersion, path: &Path, args: &[&str]) -> Pod {
    let mut pod = Pod::new(version, &[]);
    let modules = json!([{ "path": path, "args": args }]).to_string();
    pod.start_sidecar(&["--modules", &modules, "--start-patience", "0.1"]);
    pod
}

#[tokio::test]
async fn a_module_is_loaded_with_its_arguments_at_every_start() {
    for version in BOTH_VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        let mut pod = pod_with(version, &tiny(folder.path()), &["one"]);
        for _ in 0..2 {
            pod.start_server();
            pod.wait_settled();
            let info = pod.connect().await.info(&["module_list"]).await.unwrap();
            assert_eq!(info.modules().get("tiny"), Some(&10_203), "{:?}", info.modules());
            pod.server().kill().unwrap();
        }
    }
}

/// As the operator reads the end of the log.
#[test]
fn a_server_never_starts_without_a_module_and_its_last_words_name_it_and_the_reason() {
    for version in BOTH_VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        let (tiny, missing) = (tiny(folder.path()), folder.path().join("none.so"));
        let cases = [(&missing, "failed to load: ", vec![]), (&tiny, "initialization failed", vec!["one", "two"])];
        for (path, reason, args) in cases {
            let mut pod = pod_with(version, path, &args);
            // The second try comes after the sidecar has begun to leave out what no server has accepted.
            for _ in 0..2 {
                assert!(pod.try_start_server(&[]).is_err(), "it runs without {}", path.display());
                pod.wait_for("the sidecar trusts less", |pod| pod.log().contains("has not come up"));
            }
            let log = fs::read_to_string(pod.run_dir().join("server.log")).unwrap();
            let path = path.display();
            assert!(log.contains(&format!("Module {path} {reason}")), "{log}");
            assert!(log.contains(&format!("Can't load module from {path}: server aborting")), "{log}");
            assert_eq!(pod.get("/valkey/readiness").status, 503);
        }
    }
}
