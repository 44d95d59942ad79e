use super::cluster::{DEADLINE, eventually};
use crate::{
    boot::{BootGuard, BootPaths, ErrorLog, StopNotes},
    command::{Context, execute},
    process::ProcessMonitor,
    state::Shared,
};
use link::{
    client::Order,
    contract::{OpenGate, RefusedReason, Start, answer::Outcome, command::Action},
};
use std::{fs, path::PathBuf, time::Duration};
use tempfile::TempDir;
use valkey::testing::{BOTH_VERSIONS, ServerVersion, TestServer, free_port};

/// A primary with slots whose replica does not answer and whose data is gone.
const PAST: &str = "\
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 127.0.0.1:1@2,,tls-port=0,shard-id=cccccccccccccccccccccccccccccccccccccccc myself,master - 0 0 1 connected 0-16383
bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 127.0.0.1:3@4,,tls-port=0,shard-id=cccccccccccccccccccccccccccccccccccccccc slave aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0 0 1 connected
vars currentEpoch 1 lastVoteEpoch 0
";

struct Waiting {
    folder: TempDir,
    context: Context,
    server: TestServer,
}

impl Waiting {
    async fn at_the_gate(version: ServerVersion) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("nodes.conf"), PAST).unwrap();
        let port = free_port().unwrap();
        let (dir, socket) = (folder.path().display(), at("valkey.sock"));
        let conf = format!("port {port}\nunixsocket {}\ndir {dir}\ncluster-enabled yes\nsave \"\"\n", socket.display());
        fs::write(at("rendered.conf"), conf).unwrap();
        let data_dir = folder.path().to_owned();
        let context = Context { socket: socket.clone(), data_dir, shared: Shared::default() };
        keep(&context.shared, socket, folder.path().to_owned());
        let shared = context.shared.clone();
        eventually("it is decided", async || shared.lock().boot.is_some()).await;
        let server = TestServer::launch_from(version, &folder.path().join("valkey.conf"), port, &[]).unwrap();
        Self { folder, context, server }
    }

    async fn open(&self, start: Start) -> Outcome {
        let action = Action::OpenGate(OpenGate { start: start.into(), reason: "a test".into() });
        let order = Order { action, deadline: DEADLINE, orchestration_id: String::new(), traceparent: String::new() };
        execute(order, &self.context).await
    }

    async fn id(&self) -> String {
        self.server.connect().await.unwrap().cluster_my_id().await.unwrap().to_string()
    }
}

/// The agent's part, which renders again whenever it is asked to, is played by a loop.
fn keep(shared: &Shared, socket: PathBuf, folder: PathBuf) {
    let notes = StopNotes::new(socket.clone(), folder.clone());
    let monitor = ProcessMonitor::new(socket);
    let paths = BootPaths { fifo: folder.join("valkey.conf"), conf: folder.join("rendered.conf"), data_dir: folder };
    let guard = BootGuard {
        paths,
        gate: shared.gate.clone(),
        shared: shared.clone(),
        process: monitor.watch(),
        notes,
        patience: Duration::from_millis(100),
        version: None,
        errors: ErrorLog::default(),
    };
    tokio::spawn(monitor.run());
    tokio::spawn(guard.run());
    let shared = shared.clone();
    tokio::spawn(async move {
        loop {
            shared.review_asked_for().await;
            shared.gate.conf_rendered();
        }
    });
}

#[tokio::test]
async fn the_operator_lets_a_waiting_valkey_through_as_it_is() {
    for version in BOTH_VERSIONS {
        let waiting = Waiting::at_the_gate(version).await;
        assert!(waiting.context.shared.lock().boot.as_ref().unwrap().waiting);
        match waiting.open(Start::Unspecified).await {
            Outcome::Refused(refused) => assert_eq!(refused.reason(), RefusedReason::Invalid),
            other => panic!("{other:?}"),
        }
        match waiting.open(Start::AsIs).await {
            Outcome::Done(done) => assert!(done.changed && done.found.contains("its data is gone"), "{done:?}"),
            other => panic!("{other:?}; {}", waiting.server.log()),
        }
        assert_eq!(waiting.id().await, "a".repeat(40));
        assert!(matches!(waiting.open(Start::AsIs).await, Outcome::Done(done) if !done.changed));
    }
}

#[tokio::test]
async fn started_afresh_it_is_another_node_and_what_it_was_is_kept() {
    for version in BOTH_VERSIONS {
        let waiting = Waiting::at_the_gate(version).await;
        assert!(matches!(waiting.open(Start::Fresh).await, Outcome::Done(done) if done.changed));
        assert_ne!(waiting.id().await, "a".repeat(40));
        let names = fs::read_dir(waiting.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let kept = names.into_iter().find(|path| path.to_string_lossy().contains("set-aside-")).unwrap();
        assert_eq!(fs::read_to_string(kept.join("nodes.conf")).unwrap(), PAST);
    }
}
