//! Six pods in three shards: pod n+3 replicates pod n.

use crate::pod::{DEADLINE, Pod, eventually};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use valkey::{
    Connection,
    testing::{ServerVersion, TestServer},
};

pub const SHARDS: usize = 3;
const SLOTS: [(u16, u16); SHARDS] = [(0, 5460), (5461, 10922), (10923, 16383)];
/// Hash tags in the slots of each shard.
const TAGS: [&str; SHARDS] = ["06S", "1", "0"];
pub const KEYS: usize = 300;
pub struct Cluster {
    pub pods: Vec<Pod>,
}

impl Cluster {
    pub async fn form(version: ServerVersion, parameters: &[(&str, &str)], sidecar: &[&str]) -> Self {
        let mut all = vec![("repl-diskless-sync-delay", "0")];
        all.extend_from_slice(parameters);
        let mut pods: Vec<Pod> = (0..2 * SHARDS).map(|_| Pod::new(version, &all)).collect();
        for pod in &mut pods {
            pod.start_sidecar(sidecar);
            pod.start_server();
        }
        let cluster = Self { pods };
        // As the operator does it; epochs that collide would be raised by the nodes themselves, unheard by others at first.
        for (epoch, pod) in (1..).zip(&cluster.pods) {
            pod.connect().await.cluster_set_config_epoch(epoch).await.unwrap();
        }
        cluster.meet().await;
        for shard in 0..SHARDS {
            cluster.make_shard(shard).await;
        }
        cluster.wait_healthy().await;
        cluster
    }

    async fn meet(&self) {
        let mut connection = self.pods[0].connect().await;
        for other in &self.pods[1..] {
            connection.cluster_meet("127.0.0.1", other.port).await.unwrap();
        }
        for pod in &self.pods {
            let knows_all = || async { pod.connect().await.cluster_info().await.unwrap().known_nodes == 6 };
            eventually("all nodes know each other", knows_all).await;
        }
    }

    async fn make_shard(&self, shard: usize) {
        let (first, last) = SLOTS[shard];
        let mut primary = self.pods[shard].connect().await;
        primary.cluster_add_slots(first, last).await.unwrap();
        let id = primary.cluster_my_id().await.unwrap();
        let replica = &self.pods[shard + SHARDS];
        let replicate = || async { replica.connect().await.cluster_replicate(&id).await.is_ok() };
        eventually("a replica found its primary", replicate).await;
    }

    /// Ready, and aware of all slots: a replica that has not heard of its primary's would be voted for and serve none.
    pub async fn wait_healthy(&self) {
        for pod in &self.pods {
            eventually("every pod is ready and knows all slots", || async {
                pod.get("/valkey/readiness").status == 200
                    && pod.connect().await.cluster_info().await.unwrap().slots_assigned == 16384
            })
            .await;
        }
    }

    pub async fn write_to_primary(&self, shard: usize) {
        let mut connection = self.pods[shard].connect().await;
        for index in 0..KEYS {
            connection.call(&["SET", &key(shard, index), "value"]).await.unwrap();
        }
    }

    pub async fn write(&self, shard: usize) {
        self.write_to_primary(shard).await;
        let replica = &self.pods[shard + SHARDS];
        eventually("the replica has the keys", || async { keys(replica).await == KEYS }).await;
    }

    /// The replica of this shard cannot follow any more, as with a wrong password, and knows so for that many seconds.
    pub async fn unlink(&self, shard: usize, seconds: u64) {
        let replica = &self.pods[shard + SHARDS];
        let wrong = BTreeMap::from([("primaryauth".to_owned(), "wrong".to_owned())]);
        replica.connect().await.config_set(&wrong).await.unwrap();
        self.pods[shard].connect().await.call(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
        eventually("the replica has not followed for a while", || async {
            let info = replica.connect().await.info(&["replication"]).await.unwrap();
            info.number("master_link_down_since_seconds").is_some_and(|down| down >= seconds)
        })
        .await;
    }

    pub async fn role(&self, pod: usize) -> Option<bool> {
        let mut connection = try_connect(&self.pods[pod]).await?;
        connection.role().await.ok().map(|role| role == topology::Role::Primary)
    }

    pub async fn wait_role(&self, pod: usize, primary: bool) {
        let until = Instant::now() + DEADLINE;
        while self.role(pod).await != Some(primary) {
            assert!(Instant::now() < until, "pod {pod} is not primary={primary}:\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// SIGKILL, as the kernel does it.
    pub fn kill(&mut self, pod: usize) {
        self.pods[pod].server().kill().unwrap();
    }

    /// As the kubelet restarts a container in place: the process is there and waits for its configuration.
    pub fn launch(&mut self, pod: usize) {
        let pod = &mut self.pods[pod];
        let conf = pod.run_dir().join("valkey.conf");
        pod.server = Some(TestServer::launch_from(pod.version, &conf, pod.port, &[]).unwrap());
    }

    pub fn logs(&self) -> String {
        let nodes = |pod: &Pod| std::fs::read_to_string(pod.data.join("nodes.conf")).unwrap_or_default();
        let server = |pod: &Pod| pod.server.as_ref().map(TestServer::log).unwrap_or_default();
        let of = |pod: &Pod| format!("port {}:\n{}\n{}\n{}\n", pod.port, pod.log(), nodes(pod), server(pod));
        self.pods.iter().map(of).collect()
    }
}

pub fn key(shard: usize, index: usize) -> String {
    format!("{{{}}}{index}", TAGS[shard])
}

pub async fn try_connect(pod: &Pod) -> Option<Connection> {
    pod.server.as_ref()?.connect().await.ok()
}

pub async fn keys(pod: &Pod) -> usize {
    match try_connect(pod).await {
        Some(mut connection) => connection.database_size().await.map_or(0, |keys| keys.try_into().unwrap()),
        None => 0,
    }
}
