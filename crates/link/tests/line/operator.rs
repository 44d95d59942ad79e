//! An operator for the tests: records what it receives, hands out its sessions, and counts refusals.

use crate::certificates::Installation;
use anyhow::{Context, Result};
use futures::future::BoxFuture;
use link::{
    Credentials,
    contract::{HeartbeatRequest, ReportRequest},
    server::{
        Attention, Leadership, Limits, Meter, Operator, PodProof, ProofError, ProvenPod, Refusal, Server, ServerParts,
        Session, Sidecar, Wakeups,
    },
};
use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{Mutex as AsyncMutex, mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

/// It costs only a test that fails.
pub const DEADLINE: Duration = Duration::from_secs(120);

pub struct TestOperator {
    pub beats: Mutex<Vec<(Sidecar, HeartbeatRequest)>>,
    pub reports: Mutex<Vec<ReportRequest>>,
    /// Pods, and why.
    pub turned_away: Mutex<Vec<(String, String)>>,
    pub disconnected: AtomicUsize,
    pub stay_connected: AtomicBool,
    pub next: Mutex<Duration>,
    sessions: mpsc::Sender<Session>,
}

impl Operator for TestOperator {
    async fn heartbeat(&self, sidecar: &Sidecar, beat: HeartbeatRequest) -> Attention {
        self.beats.lock().unwrap().push((sidecar.clone(), beat));
        let next_heartbeat = *self.next.lock().unwrap();
        Attention { next_heartbeat, stay_connected: self.stay_connected.load(Ordering::Relaxed) }
    }

    async fn report(&self, _: &Sidecar, report: ReportRequest) {
        self.reports.lock().unwrap().push(report);
    }

    async fn orchestrate(&self, session: Session) {
        // The test holds the session; the job lasts as long as it does.
        let _ = self.sessions.send(session).await;
        std::future::pending::<()>().await;
    }

    fn turned_away(&self, claimed: &ProvenPod, why: &str) {
        self.turned_away.lock().unwrap().push((claimed.pod.clone(), why.to_owned()));
    }

    fn disconnected(&self, _: &Sidecar) {
        self.disconnected.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tokens are `namespace/cluster/pod`, and with `old:` before that they are no longer good.
#[derive(Default)]
pub struct Tokens {
    pub asked: AtomicUsize,
    /// The pods are gone.
    pub taken_back: AtomicBool,
    /// Stands for an API server that does not answer.
    pub hanging: AtomicBool,
}

impl PodProof for Tokens {
    fn prove<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<ProvenPod, ProofError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let parts: Vec<_> = token.split('/').collect();
        let proven = match parts.as_slice() {
            [old, ..] if old.starts_with("old:") => {
                Err(ProofError::Refused("its service account was made anew".into()))
            }
            [namespace, cluster, pod] => Ok(pod_of(namespace, cluster, pod)),
            _ => Err(ProofError::Refused("not a token of this operator's audience".into())),
        };
        let hanging = self.hanging.load(Ordering::Relaxed);
        Box::pin(async move { if hanging { std::future::pending().await } else { proven } })
    }

    fn claims(&self, token: &str) -> Option<ProvenPod> {
        match token.trim_start_matches("old:").split('/').collect::<Vec<_>>().as_slice() {
            [namespace, cluster, pod] => Some(pod_of(namespace, cluster, pod)),
            _ => None,
        }
    }

    fn holds(&self, _: &ProvenPod) -> Result<(), ProofError> {
        let gone = self.taken_back.load(Ordering::Relaxed);
        if gone { Err(ProofError::Refused("its pod is gone".into())) } else { Ok(()) }
    }
}

pub fn pod_of(namespace: &str, cluster: &str, pod: &str) -> ProvenPod {
    ProvenPod {
        namespace: namespace.into(),
        cluster: cluster.into(),
        cluster_uid: format!("uid-of-{namespace}-{cluster}"),
        pod: pod.into(),
        pod_uid: format!("uid-of-{pod}"),
    }
}

#[derive(Default)]
pub struct Counted {
    refusals: Mutex<HashMap<&'static str, usize>>,
    pub open: AtomicUsize,
}

impl Meter for Counted {
    fn refused(&self, refusal: &Refusal) {
        *self.refusals.lock().unwrap().entry(refusal.reason()).or_default() += 1;
    }

    fn connections(&self, open: usize) {
        self.open.store(open, Ordering::Relaxed);
    }

    fn streams(&self, _: usize) {}

    fn heartbeat(&self, _: Duration, _: Option<Duration>) {}
}

impl Counted {
    pub fn refusals(&self) -> HashMap<&'static str, usize> {
        self.refusals.lock().unwrap().clone()
    }

    pub fn count(&self, reason: &str) -> usize {
        self.refusals().get(reason).copied().unwrap_or_default()
    }
}

pub struct Running {
    pub address: SocketAddr,
    pub received: Arc<TestOperator>,
    pub tokens: Arc<Tokens>,
    pub counted: Arc<Counted>,
    pub credentials: watch::Sender<Arc<Credentials>>,
    pub leadership: watch::Sender<Leadership>,
    pub wakeups: Wakeups,
    sessions: AsyncMutex<mpsc::Receiver<Session>>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    pub async fn start(installation: &Installation) -> Result<Self> {
        Self::with_limits(installation, Limits::default()).await
    }

    pub async fn with_limits(installation: &Installation, limits: Limits) -> Result<Self> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::at(at, installation.operator()?, limits, Leadership::Leader { epoch: 1 }).await
    }

    pub async fn at(at: SocketAddr, shown: Credentials, limits: Limits, leads: Leadership) -> Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let (sessions, held) = mpsc::channel(16);
        let received = Arc::new(TestOperator::new(sessions));
        let (tokens, counted) = (Arc::new(Tokens::default()), Arc::new(Counted::default()));
        let (credentials, leadership) = (watch::Sender::new(Arc::new(shown)), watch::Sender::new(leads));
        let server = Server::new(ServerParts {
            operator: received.clone(),
            proof: tokens.clone(),
            meter: counted.clone(),
            limits,
            credentials: credentials.subscribe(),
            leadership: leadership.subscribe(),
        })?;
        let wakeups = server.wakeups();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(listener, async { drop(stopped.await) }));
        let (sessions, stop) = (AsyncMutex::new(held), Some(stop));
        Ok(Self { address, received, tokens, counted, credentials, leadership, wakeups, sessions, stop, task })
    }

    pub async fn session(&self) -> Result<Session> {
        let mut sessions = self.sessions.lock().await;
        timeout(DEADLINE, sessions.recv()).await.context("no stream was opened")?.context("the operator is gone")
    }

    pub async fn stop(mut self) -> Result<()> {
        drop(self.stop.take());
        (&mut self.task).await?;
        Ok(())
    }

    pub fn beats(&self) -> usize {
        self.received.beats.lock().unwrap().len()
    }

    pub async fn refused(&self, reason: &str) -> Result<()> {
        let wanted = || self.counted.count(reason) > 0;
        until(&format!("a refusal for {reason}"), wanted)
            .await
            .with_context(|| format!("{:?}", self.counted.refusals()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestOperator {
    fn new(sessions: mpsc::Sender<Session>) -> Self {
        Self {
            beats: Mutex::default(),
            reports: Mutex::default(),
            turned_away: Mutex::default(),
            disconnected: AtomicUsize::new(0),
            stay_connected: AtomicBool::new(false),
            next: Mutex::new(Duration::from_secs(60)),
            sessions,
        }
    }
}

/// Waits for a condition.
pub async fn until(what: &str, condition: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        anyhow::ensure!(Instant::now() < end, "waited {DEADLINE:?} in vain for {what}");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
