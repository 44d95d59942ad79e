//! The real two ends, with as little around them as they need.

use crate::world::{CLUSTER, NAMESPACE, OPERATOR};
use anyhow::Result;
use futures::future::BoxFuture;
use link::{
    Current,
    client::{Fence, Line, LineParts, LineState, Node, Notice, Order, Times},
    contract::{Done, HeartbeatRequest, ReportRequest, Sender, answer::Outcome},
    server::{
        Attention, Leadership, Limits, Meter, Operator, PodProof, ProofError, ProvenPod, Refusal, Server, ServerParts,
        Session, Sidecar,
    },
};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
};
use zeroize::Zeroizing;

/// Counts what comes.
#[derive(Default)]
struct CountingOperator {
    beats: AtomicUsize,
    disconnected: AtomicUsize,
    refusals: Mutex<Vec<String>>,
}

impl Operator for CountingOperator {
    async fn heartbeat(&self, _: &Sidecar, _: HeartbeatRequest) -> Attention {
        self.beats.fetch_add(1, Ordering::Relaxed);
        Attention { next_heartbeat: Duration::from_millis(200), stay_connected: false }
    }

    async fn report(&self, _: &Sidecar, _: ReportRequest) {}

    async fn orchestrate(&self, _: Session) {}

    fn disconnected(&self, _: &Sidecar) {
        self.disconnected.fetch_add(1, Ordering::Relaxed);
    }
}

impl Meter for CountingOperator {
    fn refused(&self, refusal: &Refusal) {
        self.refusals.lock().unwrap().push(refusal.reason().to_owned());
    }

    fn connections(&self, _: usize) {}

    fn streams(&self, _: usize) {}

    fn heartbeat(&self, _: Duration, _: Option<Duration>) {}
}

/// Who the pod is does not matter here; the certificate does.
struct AnyToken;

impl PodProof for AnyToken {
    fn prove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<ProvenPod, ProofError>> {
        let text = str::to_owned;
        let (namespace, cluster) = (text(NAMESPACE), text(CLUSTER));
        let (cluster_uid, pod, pod_uid) = (text("cluster-uid"), text("orders-0"), text("pod-uid"));
        Box::pin(async { Ok(ProvenPod { namespace, cluster, cluster_uid, pod, pod_uid }) })
    }
}

pub struct OperatorEnd {
    pub address: SocketAddr,
    operator: Arc<CountingOperator>,
    _leads: watch::Sender<Leadership>,
    task: JoinHandle<()>,
}

impl OperatorEnd {
    pub async fn start(credentials: Current) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (operator, leads) =
            (Arc::new(CountingOperator::default()), watch::Sender::new(Leadership::Leader { epoch: 1 }));
        let server = Server::new(ServerParts {
            operator: operator.clone(),
            proof: Arc::new(AnyToken),
            meter: operator.clone(),
            limits: Limits::default(),
            credentials,
            leadership: leads.subscribe(),
        })?;
        let task = tokio::spawn(server.run(listener, futures::future::pending()));
        Ok(Self { address, operator, _leads: leads, task })
    }

    pub fn beats(&self) -> usize {
        self.operator.beats.load(Ordering::Relaxed)
    }

    pub fn disconnected(&self) -> usize {
        self.operator.disconnected.load(Ordering::Relaxed)
    }

    pub fn refusals(&self) -> Vec<String> {
        self.operator.refusals.lock().unwrap().clone()
    }
}

impl Drop for OperatorEnd {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Pod;

impl Node for Pod {
    fn sender(&self) -> Sender {
        Sender {
            namespace: NAMESPACE.into(),
            cluster: CLUSTER.into(),
            cluster_uid: "cluster-uid".into(),
            pod: "orders-0".into(),
            pod_uid: "pod-uid".into(),
            sidecar_version: "0.1.0".into(),
        }
    }

    async fn token(&self) -> io::Result<Zeroizing<String>> {
        Ok(Zeroizing::new("token".into()))
    }

    async fn heartbeat(&self) -> HeartbeatRequest {
        HeartbeatRequest::default()
    }

    async fn execute(&self, _: Order) -> Outcome {
        Outcome::Done(Done::default())
    }
}

pub struct SidecarEnd {
    state: watch::Receiver<LineState>,
    _notices: mpsc::Sender<Notice>,
    task: JoinHandle<()>,
}

impl SidecarEnd {
    pub fn start(address: SocketAddr, credentials: Current) -> Result<Self> {
        Self::obeying(OPERATOR, address, credentials)
    }

    pub fn obeying(operator: &str, address: SocketAddr, credentials: Current) -> Result<Self> {
        let fence = Fence::unwritten("cluster-uid".to_owned(), 0);
        let line = Line::new(LineParts {
            node: Arc::new(Pod),
            fence: Arc::new(fence),
            addresses: vec![address.to_string()],
            operator: operator.parse()?,
            credentials,
            times: Times::default(),
        })?;
        let (notices, received) = mpsc::channel(16);
        let state = line.state();
        Ok(Self { state, _notices: notices, task: tokio::spawn(line.run(received)) })
    }

    pub fn connected(&self) -> bool {
        self.state.borrow().connected
    }

    /// Thumbprint of the certificate the open connection was made with.
    pub fn shows(&self) -> String {
        self.state.borrow().certificate.clone()
    }

    pub fn problem(&self) -> String {
        self.state.borrow().problem.clone().unwrap_or_default()
    }

    /// Ends with the first thing that went wrong, ever.
    pub fn first_problem(&self) -> JoinHandle<Option<String>> {
        let mut state = self.state.clone();
        tokio::spawn(async move { state.wait_for(|now| now.problem.is_some()).await.ok()?.problem.clone() })
    }
}

impl Drop for SidecarEnd {
    fn drop(&mut self) {
        self.task.abort();
    }
}
