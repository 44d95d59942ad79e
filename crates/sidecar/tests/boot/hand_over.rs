//! A hand-over right after the other primaries have been restarted: from Valkey 9 on they deny their votes at first.

use crate::{
    cluster::{Cluster, SHARDS, key},
    pod::{Pod, eventually},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use valkey::{
    Address, Connection,
    testing::{BOTH_VERSIONS, ServerVersion},
};

/// Writes one key after the other into the first shard, to whichever of the two addresses takes it.
struct Writer {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

impl Writer {
    fn start(addresses: [Address; 2]) -> Self {
        let (stop, acknowledged) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stopped, count) = (stop.clone(), acknowledged.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(write_until(&stopped, &count, addresses)));
        Self { stop, acknowledged, thread }
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    async fn go_on(&self) {
        let target = self.acknowledged() + 200;
        eventually("the writer goes on", || async { self.acknowledged() > target }).await;
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.acknowledged.load(Ordering::Relaxed)
    }
}

async fn write_until(stop: &AtomicBool, acknowledged: &AtomicUsize, addresses: [Address; 2]) {
    let (mut connection, mut turn) = (None, 0);
    while !stop.load(Ordering::Relaxed) {
        let next = key(0, acknowledged.load(Ordering::Relaxed));
        if write(&mut connection, &addresses[turn % 2], &next).await {
            acknowledged.fetch_add(1, Ordering::Relaxed);
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
    assert!(cluster.pods[0].server().terminate().unwrap().success());
    writer.go_on().await;
    let acknowledged = writer.end();
    let mut heir = cluster.pods[SHARDS].connect().await;
    heir.renew(Duration::from_secs(60));
    for key in (0..acknowledged).map(|index| key(0, index)) {
        assert_eq!(heir.call(&["GET", &key]).await.unwrap().into_text(), key, "of {acknowledged}");
    }
}

#[tokio::test]
async fn it_waits_for_votes_and_loses_no_acknowledged_write() {
    for version in BOTH_VERSIONS {
        hands_over_with_fresh_voters(version).await;
    }
}
