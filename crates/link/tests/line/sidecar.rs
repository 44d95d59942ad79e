//! A sidecar for the tests: the real client around a node that only remembers.

use crate::{
    certificates::{CLUSTER, NAMESPACE, operator_id},
    operator::pod_of,
};
use anyhow::Result;
use link::{
    Credentials,
    client::{EpochMemory, Fence, Kept, Line, LineParts, LineState, Node, Notice, Order, Times},
    contract::{Done, HeartbeatRequest, NodeState, Role, Sender, answer::Outcome, command::Action},
};
use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use zeroize::Zeroizing;

pub const LARGE: usize = 900_000;

pub struct Remembering {
    pod: String,
    /// What the kubelet has put there.
    pub token: Mutex<String>,
    pub executed: Mutex<Vec<Action>>,
}

impl Node for Remembering {
    fn sender(&self) -> Sender {
        sender(NAMESPACE, CLUSTER, &self.pod)
    }

    async fn token(&self) -> io::Result<Zeroizing<String>> {
        Ok(Zeroizing::new(self.token.lock().unwrap().clone()))
    }

    async fn heartbeat(&self) -> HeartbeatRequest {
        let node = NodeState { role: Role::Primary.into(), ..NodeState::default() };
        HeartbeatRequest { node: Some(node), ..HeartbeatRequest::default() }
    }

    async fn execute(&self, order: Order) -> Outcome {
        let action = order.action;
        if matches!(action, Action::Meet(_)) {
            // Stands for a Valkey that does not answer.
            std::future::pending::<()>().await;
        }
        // Stands for the view of a thousand nodes.
        let found = if matches!(action, Action::ReadView(_)) { "x".repeat(LARGE) } else { String::new() };
        self.executed.lock().unwrap().push(action);
        Outcome::Done(Done { found, changed: true, did: "noted it".into(), ..Done::default() })
    }
}

pub fn sender(namespace: &str, cluster: &str, pod: &str) -> Sender {
    let proven = pod_of(namespace, cluster, pod);
    Sender {
        namespace: proven.namespace,
        cluster: proven.cluster,
        cluster_uid: proven.cluster_uid,
        pod: proven.pod,
        pod_uid: proven.pod_uid,
        sidecar_version: "0.1.0".into(),
    }
}

pub fn token_of(pod: &str) -> String {
    format!("{NAMESPACE}/{CLUSTER}/{pod}\n")
}

/// Survives the sidecar, as its volume does.
#[derive(Clone, Default)]
pub struct Disk(Arc<AtomicU64>);

impl EpochMemory for Disk {
    fn load(&self, _: &str) -> io::Result<u64> {
        Ok(self.0.load(Ordering::Relaxed))
    }

    fn store(&self, _: &str, epoch: u64) -> io::Result<Kept> {
        self.0.store(epoch, Ordering::Relaxed);
        Ok(Kept::ForGood)
    }
}

pub struct Connected {
    pub node: Arc<Remembering>,
    pub notices: mpsc::Sender<Notice>,
    pub credentials: watch::Sender<Arc<Credentials>>,
    pub state: watch::Receiver<LineState>,
    task: JoinHandle<()>,
}

impl Connected {
    pub fn start(addresses: Vec<String>, credentials: Credentials, pod: &str, disk: &Disk) -> Result<Self> {
        Self::with_token(addresses, credentials, (pod, &token_of(pod)), disk)
    }

    pub fn with_token(
        addresses: Vec<String>,
        credentials: Credentials,
        (pod, token): (&str, &str),
        disk: &Disk,
    ) -> Result<Self> {
        let token = Mutex::new(token.to_owned());
        let node = Arc::new(Remembering { pod: pod.into(), token, executed: Mutex::default() });
        let credentials = watch::Sender::new(Arc::new(credentials));
        let fence = Fence::open(node.sender().cluster_uid, Box::new(disk.clone()))?;
        let seconds = Duration::from_secs;
        let line = Line::new(LineParts {
            node: node.clone(),
            fence: Arc::new(fence),
            addresses,
            operator: operator_id()?,
            credentials: credentials.subscribe(),
            times: Times { connect: seconds(5), call: seconds(5), ping: seconds(2), pong: seconds(2) },
        })?;
        let (notices, received) = mpsc::channel(16);
        let state = line.state();
        let task = tokio::spawn(line.run(received));
        Ok(Self { node, notices, credentials, state, task })
    }

    pub fn connected(&self) -> bool {
        self.state.borrow().connected
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.task.abort();
    }
}
