//! A hand-over right after the other primaries have been restarted: from Valkey 9 on they deny their votes at first.

use crate::{
    cluster::{Cluster, SHARDS, key, within},
    pod::Pod,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use valkey::{
    Address, Connection,
    testing::{BOTH_VERSIONS, ServerVersion},
};

/// Writes one key after the other into the first shard, to whichever of the two addresses takes it.
struct Writer {
    stop: Arc<AtomicBool>,
    progress: Arc<Mutex<Progress>>,
    thread: std::thread::JoinHandle<()>,
}

#[derive(Default)]
struct Progress {
    acknowledged: usize,
    longest_gap: Duration,
}

impl Writer {
    fn start(addresses: [Address; 2]) -> Self {
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Progress>>::default());
        let (stopped, noted) = (stop.clone(), progress.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(write_until(&stopped, &noted, addresses)));
        Self { stop, progress, thread }
    }

    fn acknowledged(&self) -> usize {
        self.progress.lock().unwrap().acknowledged
    }

    async fn go_on(&self) {
        let target = self.acknowledged() + 200;
        within(Duration::from_secs(20), "the writer goes on", || async { self.acknowledged() > target }).await;
    }

    fn end(self) -> Progress {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        std::mem::take(&mut self.progress.lock().unwrap())
    }
}

async fn write_until(stop: &AtomicBool, progress: &Mutex<Progress>, addresses: [Address; 2]) {
    let (mut connection, mut turn, mut last) = (None, 0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let next = key(0, progress.lock().unwrap().acknowledged);
        if write(&mut connection, &addresses[turn % 2], &next).await {
            let mut progress = progress.lock().unwrap();
            progress.acknowledged += 1;
            progress.longest_gap = progress.longest_gap.max(last.elapsed());
            last = Instant::now();
        } else {
            (connection, turn) = (None, turn + 1);
        }
    }
}

async fn write(connection: &mut Option<Connection>, address: &Address, key: &str) -> bool {
    if connection.is_none() {
        *connection = Connection::open(address, Duration::from_secs(8)).await.ok();
    }
    let Some(open) = connection else { return false };
    open.renew(Duration::from_secs(8));
    open.call(&["SET", key, key]).await.is_ok()
}

fn address(pod: &Pod) -> Address {
    pod.server.as_ref().unwrap().tcp_address()
}

async fn hands_over_with_fresh_voters(version: ServerVersion) {
    let journal = [("save", ""), ("appendonly", "yes")];
    let mut cluster = Cluster::form(version, &journal, &["--boot-patience", "0.2"]).await;
    for voter in [1, 2] {
        cluster.kill(voter);
        cluster.launch(voter);
    }
    let writer = Writer::start([address(&cluster.pods[0]), address(&cluster.pods[SHARDS])]);
    writer.go_on().await;
    let answer = cluster.pods[0].get("/valkey/pre-stop");
    assert_eq!(answer.json()["outcome"], "handed-over", "{}", answer.body);
    assert!(answer.took < Duration::from_secs(12), "{:?}", answer.took);
    assert!(cluster.pods[0].server().terminate().unwrap().success());
    writer.go_on().await;
    let Progress { acknowledged, longest_gap } = writer.end();
    let logs = || [0, 1, 2, SHARDS].map(|pod| cluster.pods[pod].server.as_ref().unwrap().log()).join("\n");
    assert!(longest_gap < Duration::from_secs(2), "{}: {longest_gap:?}; {}", version.line(), logs());
    let mut heir = cluster.pods[SHARDS].connect().await;
    heir.renew(Duration::from_secs(60));
    for key in (0..acknowledged).map(|index| key(0, index)) {
        assert_eq!(heir.call(&["GET", &key]).await.unwrap().into_text(), key, "of {acknowledged}");
    }
}

#[tokio::test]
async fn it_waits_for_votes_without_holding_clients_back_and_loses_no_acknowledged_write() {
    for version in BOTH_VERSIONS {
        hands_over_with_fresh_voters(version).await;
    }
}
