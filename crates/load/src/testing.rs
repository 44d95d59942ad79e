//! Clusters for tests: formed out of fresh nodes wherever they run, or out of processes started here. IO; tests only.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use valkey::{
    Address, CallError, Connection,
    testing::{ServerVersion, TestServer, free_port},
};

const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, thiserror::Error)]
pub enum TestingError {
    #[error("could not start a server")]
    Start(#[from] io::Error),
    #[error("a node did not do as told")]
    Call(#[from] CallError),
    #[error("it took longer than {PATIENCE:?}: {what}")]
    Deadline { what: String },
    #[error("there is no node {0}")]
    NoNode(usize),
}

/// Makes a cluster of fresh nodes: the first `primaries` share the slots, the others become their replicas in turn.
pub async fn form(nodes: &[SocketAddr], primaries: usize) -> Result<(), TestingError> {
    let first = *nodes.first().ok_or(TestingError::NoNode(0))?;
    let mut ids = Vec::new();
    for node in nodes {
        let mut connection = connect(*node).await?;
        ids.push(connection.cluster_my_id().await?);
        connection.cluster_meet(&first.ip().to_string(), first.port()).await?;
    }
    for (node, (first, last)) in nodes.iter().zip(even_ranges(primaries)) {
        connect(*node).await?.cluster_add_slots(first, last).await?;
    }
    wait_until("every node to know every other", async || {
        all(nodes, |info| info.known_nodes == nodes.len() as u64).await
    })
    .await?;
    for (node, primary) in nodes.iter().skip(primaries).zip(ids.iter().take(primaries).cycle()) {
        connect(*node).await?.cluster_replicate(primary).await?;
    }
    wait_until("every slot to be served", async || all(nodes, |info| info.state_ok).await).await?;
    wait_until("replicas to be in sync", async || in_sync(nodes, primaries).await).await
}

pub async fn connect(node: SocketAddr) -> Result<Connection, CallError> {
    Connection::open(&Address::Tcp(node), PATIENCE).await
}

/// Polls until it is true.
pub async fn wait_until(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<bool, CallError>,
) -> Result<(), TestingError> {
    let until = Instant::now() + PATIENCE;
    while !matches!(look().await, Ok(true)) {
        if Instant::now() > until {
            return Err(TestingError::Deadline { what: what.to_owned() });
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn even_ranges(primaries: usize) -> impl Iterator<Item = (u16, u16)> {
    let edge = move |number: usize| u16::try_from(16_384 * number / primaries).unwrap_or(u16::MAX);
    (0..primaries).map(move |number| (edge(number), edge(number + 1) - 1))
}

async fn all(nodes: &[SocketAddr], holds: impl Fn(valkey::ClusterInfo) -> bool) -> Result<bool, CallError> {
    for node in nodes {
        if !holds(connect(*node).await?.cluster_info().await?) {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn in_sync(nodes: &[SocketAddr], primaries: usize) -> Result<bool, CallError> {
    for replica in nodes.iter().skip(primaries) {
        let info = connect(*replica).await?.info(&["replication"]).await?;
        if info.text("master_link_status") != Some("up") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Every replica is in its primary's shard, by the lines of a nodes.conf.
fn shards_agree(text: &str) -> bool {
    let shard =
        |line: &str| line.split(' ').nth(1)?.split(',').find(|part| part.starts_with("shard-id=")).map(str::to_owned);
    let of = |id: &str| text.lines().find(|line| line.split(' ').next() == Some(id)).and_then(shard);
    text.lines().all(|line| {
        let primary = line.split(' ').nth(3).and_then(of);
        primary.is_none() || primary == shard(line)
    })
}

/// Real servers on loopback, each with a folder that outlives its process.
pub struct ProcessCluster {
    pub version: ServerVersion,
    parameters: Vec<String>,
    nodes: Vec<ProcessNode>,
}

struct ProcessNode {
    folder: TempDir,
    port: u16,
    server: Option<TestServer>,
}

impl ProcessCluster {
    /// `primaries` × (1 + `replicas`) servers that keep nothing on disk but their identity.
    pub async fn start(
        version: ServerVersion,
        primaries: usize,
        replicas: usize,
        node_timeout: Duration,
    ) -> Result<Self, TestingError> {
        let timeout = node_timeout.as_millis().to_string();
        let parameters = ["--cluster-enabled", "yes", "--save", "", "--repl-diskless-sync-delay", "0"];
        let mut parameters: Vec<String> = parameters.map(str::to_owned).to_vec();
        parameters.extend(["--cluster-node-timeout".to_owned(), timeout]);
        let mut cluster = Self { version, parameters, nodes: Vec::new() };
        for _ in 0..primaries * (1 + replicas) {
            cluster.add_node()?;
        }
        form(&cluster.addresses(), primaries).await?;
        wait_until("every nodes.conf to be one that Valkey reads", async || cluster.is_restartable().await).await?;
        Ok(cluster)
    }

    /// For a moment after a cluster has formed, Valkey 8.x writes replicas into another shard than their primaries, and would refuse
    /// to start from that.
    async fn is_restartable(&self) -> Result<bool, CallError> {
        for (node, address) in self.nodes.iter().zip(self.addresses()) {
            connect(address).await?.call(&["CLUSTER", "SAVECONFIG"]).await?;
            let text = std::fs::read_to_string(node.folder.path().join("nodes.conf")).unwrap_or_default();
            if !shards_agree(&text) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One more server, which belongs to nobody yet; its number.
    pub fn add_node(&mut self) -> Result<usize, TestingError> {
        let folder = tempfile::Builder::new().prefix("valkey-load-").tempdir()?;
        self.nodes.push(ProcessNode { folder, port: free_port()?, server: None });
        let number = self.nodes.len() - 1;
        self.start_node(number)?;
        Ok(number)
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| SocketAddr::new(IpAddr::from([127, 0, 0, 1]), node.port)).collect()
    }

    pub fn seeds(&self) -> Vec<String> {
        self.addresses().iter().map(ToString::to_string).collect()
    }

    pub fn address(&self, number: usize) -> Result<SocketAddr, TestingError> {
        self.addresses().get(number).copied().ok_or(TestingError::NoNode(number))
    }

    pub fn server(&self, number: usize) -> Result<&TestServer, TestingError> {
        self.nodes.get(number).and_then(|node| node.server.as_ref()).ok_or(TestingError::NoNode(number))
    }

    pub async fn connect(&self, number: usize) -> Result<Connection, TestingError> {
        Ok(connect(self.address(number)?).await?)
    }

    /// SIGKILL.
    pub fn kill(&mut self, number: usize) -> Result<(), TestingError> {
        let node = self.nodes.get_mut(number).ok_or(TestingError::NoNode(number))?;
        if let Some(mut server) = node.server.take() {
            server.kill()?;
        }
        Ok(())
    }

    /// The same node again, with the files it left.
    pub fn start_node(&mut self, number: usize) -> Result<(), TestingError> {
        let node = self.nodes.get_mut(number).ok_or(TestingError::NoNode(number))?;
        let conf = node.folder.path().join("valkey.conf");
        let folder = node.folder.path().display();
        std::fs::write(&conf, format!("port {}\ndir {folder}\nunixsocket {folder}/valkey.sock\n", node.port))?;
        let parameters: Vec<&str> = self.parameters.iter().map(String::as_str).collect();
        node.server = Some(TestServer::start_from(self.version, &conf, node.port, &parameters)?);
        Ok(())
    }

    pub async fn set(&self, number: usize, name: &str, value: &str) -> Result<(), TestingError> {
        let values = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        Ok(self.connect(number).await?.config_set(&values).await?)
    }
}
