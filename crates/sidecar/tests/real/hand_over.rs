//! Before a primary stops it hands over in a real cluster of three shards, while a client writes.

use crate::pod::{DEADLINE, Pod, eventually};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use valkey::{
    Address, CallError, Connection,
    testing::{BOTH_VERSIONS, ServerVersion, TestServer},
};

/// The pod is the primary of the first shard; its replica and the two other shards are plain servers.
struct Cluster {
    pod: Pod,
    replica: TestServer,
    others: Vec<TestServer>,
}

const SLOTS: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];
/// Of the packets on the bus, for tests that have some of them dropped.
const PONG: &str = "1";
const VOTE_REQUEST: &str = "5";
const NOTHING: &str = "-1";
const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];
const PLAIN: [&str; 10] = [
    "--enable-debug-command",
    "yes",
    "--cluster-enabled",
    "yes",
    "--repl-diskless-sync-delay",
    "0",
    "--cluster-node-timeout",
    "5000",
    "--cluster-announce-ip",
    "127.0.0.1",
];

impl Cluster {
    async fn form(version: ServerVersion) -> Self {
        let mut pod = Pod::new(version, &[("repl-diskless-sync-delay", "0")]);
        pod.start_sidecar(&["--hand-over-deadline", "20"]);
        pod.try_start_server(&DEBUG).unwrap();
        pod.wait_settled();
        let mut plain = (0..5).map(|_| TestServer::start(version, &PLAIN).unwrap());
        let cluster = Self { replica: plain.next().unwrap(), others: plain.collect(), pod };
        cluster.meet().await;
        let primaries = [cluster.pod.server.as_ref().unwrap(), &cluster.others[0], &cluster.others[1]];
        let replicas = [&cluster.replica, &cluster.others[2], &cluster.others[3]];
        for ((primary, replica), (first, last)) in primaries.into_iter().zip(replicas).zip(SLOTS) {
            let mut connection = primary.connect().await.unwrap();
            connection.cluster_add_slots(first, last).await.unwrap();
            let id = connection.cluster_my_id().await.unwrap();
            let replicate = || async { replica.connect().await.unwrap().cluster_replicate(&id).await.is_ok() };
            eventually("a replica found its primary", replicate).await;
        }
        cluster.wait_in_sync().await;
        cluster
    }

    /// A primary denies its vote in the first seconds of its life; a hand-over then takes a second try.
    async fn wait_for_voters(&self) {
        for voter in &self.others[..2] {
            eventually("the other primaries vote", || async {
                let info = voter.connect().await.unwrap().info(&["server"]).await.unwrap();
                info.number("uptime_in_seconds").is_some_and(|seconds| seconds >= 6)
            })
            .await;
        }
    }

    async fn meet(&self) {
        let mut connection = self.pod.connect().await;
        for other in self.others.iter().chain([&self.replica]) {
            connection.cluster_meet("127.0.0.1", other.port).await.unwrap();
        }
        eventually("all nodes know each other", || async {
            self.pod.connect().await.cluster_info().await.unwrap().known_nodes == 6
        })
        .await;
    }

    async fn wait_in_sync(&self) {
        eventually("the cluster is up and the pod's replica in sync", || async {
            let mut connection = self.pod.connect().await;
            let up = connection.cluster_info().await.unwrap().state_ok;
            let info = connection.info(&["replication"]).await.unwrap();
            let nodes = connection.cluster_nodes().await.unwrap();
            let known = nodes.replicas_of(&nodes.myself().unwrap().id).count() == 1;
            up && known && info.attached_replicas().iter().any(|replica| replica.online)
        })
        .await;
        // The replica's own view too: it refuses to take over while it holds the cluster for down.
        eventually("the replica sees the cluster up", || async {
            self.replica.connect().await.unwrap().cluster_info().await.unwrap().state_ok
        })
        .await;
    }
}

/// A client on a thread of its own that writes one key after the other into the first shard, wherever that goes.
struct Writer {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(addresses: [Address; 2]) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (stop.clone(), acknowledged.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(write_until(&stopped, &count, addresses)));
        Self { stop, acknowledged, thread }
    }

    async fn wait_for_more(&self, count: usize) {
        let target = self.acknowledged.load(Ordering::Relaxed) + count;
        eventually("the writer goes on", || async { self.acknowledged.load(Ordering::Relaxed) >= target }).await;
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.acknowledged.load(Ordering::Relaxed)
    }
}

/// The hash tag {06S} lies in slot 0.
fn key(index: usize) -> String {
    format!("{{06S}}{index}")
}

async fn write_until(stop: &AtomicBool, acknowledged: &AtomicUsize, addresses: [Address; 2]) {
    let mut turn = 0;
    let mut connection = None;
    while !stop.load(Ordering::Relaxed) {
        let next = key(acknowledged.load(Ordering::Relaxed));
        match write(&mut connection, &addresses[turn % 2], &next).await {
            Ok(()) => _ = acknowledged.fetch_add(1, Ordering::Relaxed),
            Err(_) => (connection, turn) = (None, turn + 1),
        }
    }
}

async fn write(connection: &mut Option<Connection>, address: &Address, key: &str) -> Result<(), CallError> {
    let open = match connection {
        Some(open) => open,
        None => connection.insert(Connection::open(address, Duration::from_secs(2)).await?),
    };
    open.renew(Duration::from_secs(2));
    open.call(&["SET", key, key]).await.map(drop)
}

#[tokio::test]
async fn a_primary_hands_over_before_it_stops_and_no_acknowledged_write_is_lost() {
    for version in BOTH_VERSIONS {
        let mut cluster = Cluster::form(version).await;
        cluster.wait_for_voters().await;
        let addresses = [cluster.pod.server.as_ref().unwrap().tcp_address(), cluster.replica.tcp_address()];
        let writer = Writer::start(addresses);
        writer.wait_for_more(200).await;
        let answer = cluster.pod.get("/valkey/pre-stop");
        assert_eq!(answer.json()["outcome"], "handed-over", "{}", answer.body);
        assert_eq!(cluster.pod.connect().await.role().await.unwrap(), topology::Role::Replica);
        assert!(cluster.pod.server().terminate().unwrap().success());
        writer.wait_for_more(200).await;
        check_nothing_lost(&cluster.replica, writer.end()).await;
    }
}

async fn check_nothing_lost(primary: &TestServer, acknowledged: usize) {
    let mut connection = primary.connect().await.unwrap();
    assert_eq!(connection.role().await.unwrap(), topology::Role::Primary);
    connection.renew(Duration::from_secs(60));
    for key in (0..acknowledged).map(key) {
        assert_eq!(connection.call(&["GET", &key]).await.unwrap().into_text(), key, "of {acknowledged}");
    }
}

#[tokio::test]
async fn asking_again_or_twice_at_once_changes_nothing() {
    let cluster = Cluster::form(ServerVersion::V9_1).await;
    let pod = &cluster.pod;
    let outcomes = std::thread::scope(|scope| {
        let asked = [(); 2].map(|()| scope.spawn(|| pod.get("/valkey/pre-stop").json()["outcome"].clone()));
        asked.map(|thread| thread.join().unwrap())
    });
    let mut outcomes = outcomes.map(|outcome| outcome.as_str().unwrap().to_owned());
    outcomes.sort();
    assert_eq!(outcomes, ["handed-over", "nothing-to-do"]);
    let again = pod.get("/valkey/pre-stop");
    assert_eq!((again.status, again.json()["detail"].as_str()), (200, Some("this node is a replica")));
    assert!(pod.get("/metrics").body.contains("hand_overs_total{outcome=\"handed-over\"} 1"));
}

#[tokio::test]
async fn without_a_replica_in_sync_nothing_is_handed_over() {
    let mut cluster = Cluster::form(ServerVersion::V8_1).await;
    cluster.replica.kill().unwrap();
    eventually("the primary misses its replica", || async {
        let info = cluster.pod.connect().await.info(&["replication"]).await.unwrap();
        info.attached_replicas().is_empty()
    })
    .await;
    let answer = cluster.pod.get("/valkey/pre-stop");
    assert_eq!(answer.json()["outcome"], "no-replica-in-sync");
}

#[tokio::test]
async fn nobody_hands_over_to_a_replica_whose_own_pod_stops() {
    for version in BOTH_VERSIONS {
        let cluster = Cluster::form(version).await;
        let stopping = BTreeMap::from([("replica-priority".to_owned(), "0".to_owned())]);
        cluster.replica.connect().await.unwrap().config_set(&stopping).await.unwrap();
        let answer = cluster.pod.get("/valkey/pre-stop");
        assert_eq!(answer.json()["outcome"], "no-replica-in-sync", "{}", answer.body);
        let mut own = cluster.pod.connect().await;
        assert_eq!(own.role().await.unwrap(), topology::Role::Primary);
        assert_eq!(
            own.config_get(&["replica-priority"]).await.unwrap(),
            stopping,
            "the others are told of this one too"
        );
    }
}

/// Those that are asked for their vote.
fn voters(cluster: &Cluster) -> [&TestServer; 3] {
    [cluster.pod.server.as_ref().unwrap(), &cluster.others[0], &cluster.others[1]]
}

async fn drop_packets(servers: &[&TestServer], kind: &str) {
    for server in servers {
        let mut connection = server.connect().await.unwrap();
        connection.call(&["DEBUG", "DROP-CLUSTER-PACKET-FILTER", kind]).await.unwrap();
    }
}

const ACCEPTED: &str = "anual failover user request accepted";
const BEGUN: &str = "anual failover requested";

/// Spins: what follows has to happen before the servers get any further.
fn spin_until(what: &str, reached: impl Fn() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !reached() {
        assert!(Instant::now() < until, "not within {DEADLINE:?}: {what}");
    }
}

#[tokio::test]
async fn clients_go_on_while_the_replica_is_frozen_and_nothing_is_lost_when_it_thaws() {
    for version in BOTH_VERSIONS {
        let cluster = Cluster::form(version).await;
        cluster.wait_for_voters().await;
        drop_packets(&voters(&cluster), VOTE_REQUEST).await;
        let writer = Writer::start([voters(&cluster)[0].tcp_address(), cluster.replica.tcp_address()]);
        writer.wait_for_more(200).await;
        let (health, pod) = (cluster.pod.health, &cluster.pod);
        let asked = std::thread::spawn(move || crate::pod::get(health, "/valkey/pre-stop"));
        spin_until("the replica is asked", || cluster.replica.log().contains(ACCEPTED));
        cluster.replica.freeze().unwrap();
        pod.wait_for("the try has failed", |pod| pod.log().contains("trying again"));
        writer.wait_for_more(200).await;
        drop_packets(&voters(&cluster), NOTHING).await;
        cluster.replica.thaw().unwrap();
        let answer = asked.join().unwrap().unwrap();
        writer.wait_for_more(200).await;
        // On a busy machine it is frozen for longer than a node timeout, and is no replica any more that could take over.
        let primary = match answer.json()["outcome"].as_str() {
            Some("handed-over") => &cluster.replica,
            Some("no-replica-in-sync") => pod.server.as_ref().unwrap(),
            _ => panic!("{}\n{}", answer.body, pod.log()),
        };
        check_nothing_lost(primary, writer.end()).await;
    }
}

/// It may have won the vote and ended before anybody heard of it, and then comes back with its claim to the slots.
#[tokio::test]
async fn what_is_acknowledged_after_the_heir_won_unheard_and_vanished_survives_its_return() {
    for version in BOTH_VERSIONS {
        let mut tries = 0..5;
        while !heir_wins_unheard_and_comes_back(version).await {
            assert!(tries.next().is_some(), "{version:?}: it was heard of each time");
        }
    }
}

/// False when it could still tell somebody.
async fn heir_wins_unheard_and_comes_back(version: ServerVersion) -> bool {
    let mut cluster = Cluster::form(version).await;
    cluster.wait_for_voters().await;
    let deaf: Vec<&TestServer> = voters(&cluster).into_iter().chain(&cluster.others[2..]).collect();
    drop_packets(&deaf, PONG).await;
    let writer = Writer::start([voters(&cluster)[0].tcp_address(), cluster.replica.tcp_address()]);
    writer.wait_for_more(200).await;
    let health = cluster.pod.health;
    let asked = std::thread::spawn(move || crate::pod::get(health, "/valkey/pre-stop"));
    let nodes = cluster.replica.socket.with_file_name("nodes.conf");
    let won = || std::fs::read_to_string(&nodes).is_ok_and(|nodes| nodes.contains("myself,master"));
    spin_until("the replica has won", || won() || asked.is_finished());
    cluster.replica.kill().unwrap();
    let answer = asked.join().unwrap().unwrap();
    let mut own = cluster.pod.connect().await;
    if !won() || own.role().await.unwrap() == topology::Role::Replica {
        return false;
    }
    writer.wait_for_more(200).await;
    drop_packets(&voters(&cluster), NOTHING).await;
    drop_packets(&cluster.others[2..].iter().collect::<Vec<_>>(), NOTHING).await;
    cluster.replica.start_again().unwrap();
    cluster.wait_in_sync().await;
    writer.wait_for_more(200).await;
    let log = cluster.pod.server.as_ref().unwrap().log();
    assert_eq!(own.role().await.unwrap(), topology::Role::Primary, "{}\n{log}", answer.body);
    check_nothing_lost(cluster.pod.server.as_ref().unwrap(), writer.end()).await;
    true
}

#[tokio::test]
async fn a_hand_over_is_not_begun_while_most_voters_are_silent_and_is_when_they_are_back() {
    for version in BOTH_VERSIONS {
        let cluster = Cluster::form(version).await;
        cluster.wait_for_voters().await;
        for voter in &cluster.others[..2] {
            voter.freeze().unwrap();
        }
        let (health, pod) = (cluster.pod.health, &cluster.pod);
        let asked = std::thread::spawn(move || crate::pod::get(health, "/valkey/pre-stop"));
        pod.wait_for("it is put off", |pod| pod.log().contains("too few primaries would vote"));
        let log = pod.server.as_ref().unwrap().log();
        for voter in &cluster.others[..2] {
            voter.thaw().unwrap();
        }
        assert!(!log.contains(BEGUN), "{log}");
        let answer = asked.join().unwrap().unwrap();
        assert_eq!(answer.json()["outcome"], "handed-over", "{}\n{}", answer.body, pod.log());
    }
}

/// Voters that do not know the replica would not hear it: nobody is held back for a try that cannot succeed.
#[tokio::test]
async fn a_hand_over_that_cannot_be_won_is_not_begun() {
    let cluster = Cluster::form(ServerVersion::V8_1).await;
    cluster.wait_for_voters().await;
    let replica = cluster.replica.connect().await.unwrap().cluster_my_id().await.unwrap();
    for voter in &cluster.others[..2] {
        voter.connect().await.unwrap().cluster_forget(&replica).await.unwrap();
    }
    let answer = cluster.pod.get("/valkey/pre-stop");
    assert_ne!(answer.json()["outcome"], "handed-over", "{}", answer.body);
    let logs = [cluster.pod.server.as_ref().unwrap(), &cluster.others[0], &cluster.others[1]].map(TestServer::log);
    assert!(!logs[0].contains(BEGUN), "{}\n{}\n{}", answer.body, cluster.pod.log(), logs.join("\n"));
}

#[tokio::test]
async fn a_hung_replica_costs_the_deadline() {
    let cluster = Cluster::form(ServerVersion::V9_1).await;
    cluster.replica.freeze().unwrap();
    let answer = cluster.pod.get("/valkey/pre-stop");
    assert_ne!(answer.json()["outcome"], "handed-over");
    assert_eq!(cluster.pod.get("/healthz").status, 200);
    cluster.replica.thaw().unwrap();
}

#[test]
fn a_node_that_is_alone_or_dead_or_hung_has_nothing_to_wait_for() {
    let mut pod = Pod::settled(ServerVersion::V9_1, &[]);
    assert_eq!(pod.get("/valkey/pre-stop").json()["detail"], "this primary serves no slots");
    pod.server().freeze().unwrap();
    let answer = pod.get("/valkey/pre-stop");
    assert_eq!(answer.json()["outcome"], "valkey-unreachable");
    pod.server().kill().unwrap();
    let answer = pod.get("/valkey/pre-stop");
    assert_eq!(answer.json()["outcome"], "valkey-unreachable");
}
