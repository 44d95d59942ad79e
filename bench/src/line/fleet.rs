//! Simulated sidecars: the real client around a node that says what a healthy one would. IO.

use crate::{
    certificates::{Files, NAMESPACE, OPERATOR_NAMESPACE},
    child::orders,
};
use anyhow::Result;
use link::{
    Credentials,
    client::{Fence, Line, LineParts, LineState, Node, Notice, Order, Times},
    contract::{
        ClusterView, Condition, Done, HeartbeatRequest, NodeState, Revisions, Role, Sender, Volume, answer::Outcome,
    },
};
use std::{io, sync::Arc, time::Duration};
use tokio::sync::{mpsc, watch};
use zeroize::Zeroizing;

struct Simulated {
    cluster: String,
    pod: String,
}

pub fn sender(cluster: &str, pod: &str) -> Sender {
    Sender {
        namespace: NAMESPACE.into(),
        cluster: cluster.into(),
        cluster_uid: format!("uid-{cluster}"),
        pod: pod.into(),
        pod_uid: format!("uid-{pod}"),
        sidecar_version: "0.1.0".into(),
    }
}

impl Node for Simulated {
    fn sender(&self) -> Sender {
        sender(&self.cluster, &self.pod)
    }

    async fn token(&self) -> io::Result<Zeroizing<String>> {
        Ok(Zeroizing::new(format!("{NAMESPACE}/{}/{}/{}", self.cluster, self.pod, "t".repeat(1_000))))
    }

    async fn heartbeat(&self) -> HeartbeatRequest {
        let node = NodeState {
            node_id: "07c37dfeb235213a872192d90877d0cd55635b91".into(),
            role: Role::Replica.into(),
            condition: Condition::Ready.into(),
            valkey_version: "9.1.0".into(),
            replication_offset: 123_456_789,
            primary_node_id: "e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca".into(),
            primary_link_up: true,
            ..NodeState::default()
        };
        let view = ClusterView { slots_digest: vec![7; 32], known_nodes: 100, ..ClusterView::default() };
        let revisions = Revisions { settings: "3f7a".into(), acl: "91bc".into(), ..Revisions::default() };
        let volume = Volume { size_bytes: 1 << 33, available_bytes: 1 << 32 };
        HeartbeatRequest {
            node: Some(node),
            view: Some(view),
            revisions: Some(revisions),
            volume: Some(volume),
            ..HeartbeatRequest::default()
        }
    }

    async fn execute(&self, _: Order) -> Outcome {
        Outcome::Done(Done::default())
    }
}

struct Member {
    state: watch::Receiver<LineState>,
    /// Kept, because the line ends with it.
    _notices: mpsc::Sender<Notice>,
}

pub struct Fleet {
    members: Vec<Member>,
    /// One for each cluster: its pods share the Secret.
    pub clusters: Vec<(String, watch::Sender<Arc<Credentials>>)>,
}

impl Fleet {
    pub fn new() -> Self {
        Self { members: Vec::new(), clusters: Vec::new() }
    }

    pub fn add_cluster(&mut self, name: &str, pods: usize, files: &Files, address: &str) -> Result<()> {
        let credentials = watch::Sender::new(Arc::new(files.credentials()?));
        for number in 0..pods {
            let node = Simulated { cluster: name.to_owned(), pod: format!("{name}-{number}") };
            self.members.push(start(node, address, credentials.subscribe())?);
        }
        self.clusters.push((name.to_owned(), credentials));
        Ok(())
    }

    pub fn connected(&self) -> usize {
        self.members.iter().filter(|member| member.state.borrow().connected).count()
    }

    /// Sidecars whose line was made with this certificate.
    pub fn with_certificate(&self, thumbprints: &[String]) -> usize {
        self.members.iter().filter(|member| thumbprints.contains(&member.state.borrow().certificate)).count()
    }

    pub fn problem(&self) -> Option<String> {
        self.members.iter().find_map(|member| member.state.borrow().problem.clone())
    }
}

fn start(node: Simulated, address: &str, credentials: link::Current) -> Result<Member> {
    let fence = Fence::unwritten(node.sender().cluster_uid, 0);
    let line = Line::new(LineParts {
        node: Arc::new(node),
        fence: Arc::new(fence),
        addresses: vec![address.to_owned()],
        operator: pki::identity::operator(OPERATOR_NAMESPACE)?,
        credentials,
        times: Times::default(),
    })?;
    let (notices, received) = mpsc::channel(1);
    let state = line.state();
    tokio::spawn(line.run(received));
    Ok(Member { state, _notices: notices })
}

/// A process with one sidecar's line and nothing else.
pub async fn one() -> Result<()> {
    let (orders, mut questions) = orders()?;
    let mut fleet = Fleet::new();
    fleet.add_cluster("one", 1, &orders.files, &orders.address)?;
    while fleet.connected() == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("connected");
    while questions.recv().await.is_some() {}
    Ok(())
}
