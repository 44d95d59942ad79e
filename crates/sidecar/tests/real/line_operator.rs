//! An operator for the tests: the real server of the line around a logic that only records what it receives.

use crate::{
    installation::SYSTEM,
    pod::{CLUSTER_UID, DEADLINE, POD_UID, Pod},
};
use futures::future::BoxFuture;
use link::{
    Credentials,
    contract::{HeartbeatRequest, ReportRequest, report_request::Event},
    server::{
        Attention, Leadership, Limits, Meter, Operator, PodProof, ProofError, ProvenPod, Refusal, Server, ServerParts,
        Session, Sidecar, Wakeups,
    },
};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, runtime::Runtime, sync::watch};

#[derive(Default)]
pub struct TestOperator {
    pub beats: Mutex<Vec<(Sidecar, HeartbeatRequest)>>,
    pub reports: Mutex<Vec<(Instant, ReportRequest)>>,
    pub refusals: Mutex<Vec<String>>,
    pub stay_connected: AtomicBool,
    sessions: Mutex<Option<mpsc::Sender<Session>>>,
}

impl Operator for TestOperator {
    async fn heartbeat(&self, sidecar: &Sidecar, beat: HeartbeatRequest) -> Attention {
        self.beats.lock().unwrap().push((sidecar.clone(), beat));
        let stay_connected = self.stay_connected.load(Ordering::Relaxed);
        Attention { next_heartbeat: Duration::from_secs(60), stay_connected }
    }

    async fn report(&self, _: &Sidecar, report: ReportRequest) {
        self.reports.lock().unwrap().push((Instant::now(), report));
    }

    async fn orchestrate(&self, session: Session) {
        if let Some(sender) = self.sessions.lock().unwrap().clone() {
            let _ = sender.send(session);
        }
        std::future::pending::<()>().await;
    }

    fn disconnected(&self, _: &Sidecar) {}
}

impl Meter for TestOperator {
    fn refused(&self, refusal: &Refusal) {
        self.refusals.lock().unwrap().push(refusal.to_string());
    }

    fn connections(&self, _: usize) {}

    fn streams(&self, _: usize) {}

    fn heartbeat(&self, _: Duration, _: Option<Duration>) {}
}

/// Tokens are `namespace/cluster/pod`.
struct Tokens;

impl PodProof for Tokens {
    fn prove<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<ProvenPod, ProofError>> {
        let proven = match token {
            "default/poc/poc-0" => Ok(ProvenPod {
                namespace: "default".into(),
                cluster: "poc".into(),
                cluster_uid: CLUSTER_UID.into(),
                pod: "poc-0".into(),
                pod_uid: POD_UID.into(),
            }),
            other => Err(ProofError::Refused(format!("not a token: {other}"))),
        };
        Box::pin(async move { proven })
    }
}

pub struct RunningOperator {
    pub address: SocketAddr,
    pub received: Arc<TestOperator>,
    pub leadership: watch::Sender<Leadership>,
    pub runtime: Runtime,
    pub sessions: mpsc::Receiver<Session>,
    wakeups: Wakeups,
}

impl RunningOperator {
    pub fn start(shown: Credentials) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), shown)
    }

    pub fn at(address: SocketAddr, shown: Credentials) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, sessions) = mpsc::channel();
        let received = Arc::new(TestOperator { sessions: Mutex::new(Some(sender)), ..TestOperator::default() });
        let leadership = watch::Sender::new(Leadership::Leader { epoch: 1 });
        let (credentials, current) = watch::channel(Arc::new(shown));
        let server = Server::new(ServerParts {
            operator: received.clone(),
            proof: Arc::new(Tokens),
            meter: received.clone(),
            limits: Limits::default(),
            credentials: current,
            leadership: leadership.subscribe(),
        });
        let server = server.unwrap();
        let wakeups = server.wakeups();
        runtime.spawn(async move {
            let _credentials = credentials;
            server.run(listener, std::future::pending()).await;
        });
        Self { address, received, leadership, runtime, sessions, wakeups }
    }

    /// What the settings of a pod say of this operator.
    pub fn settings(&self) -> serde_json::Value {
        let id = pki::identity::operator(SYSTEM).unwrap().to_string();
        serde_json::json!({"addresses": [self.address.to_string()], "operatorId": id})
    }

    pub fn leads(&self, epoch: u64) {
        self.leadership.send_replace(Leadership::Leader { epoch });
    }

    /// Asks for a heartbeat now; false when the pod does not wait for it yet.
    pub fn wake(&self) -> bool {
        self.wakeups.wake(POD_UID)
    }

    pub fn beats(&self) -> usize {
        self.received.beats.lock().unwrap().len()
    }

    pub fn refusals(&self) -> Vec<String> {
        self.received.refusals.lock().unwrap().clone()
    }

    pub fn wait_beat(&self, pod: &Pod, what: &str, wanted: impl Fn(&HeartbeatRequest) -> bool) -> HeartbeatRequest {
        let find =
            || self.received.beats.lock().unwrap().iter().rev().map(|(_, beat)| beat.clone()).find(|beat| wanted(beat));
        pod.wait_for(what, |_| find().is_some());
        find().unwrap()
    }

    /// Waits for a report, and tells when it came.
    pub fn wait_report(&self, pod: &Pod, what: &str, wanted: impl Fn(&Event) -> bool) -> (Instant, Event) {
        let until = Instant::now() + DEADLINE;
        loop {
            let reports = self.received.reports.lock().unwrap().clone();
            let mut events = reports.into_iter().filter_map(|(at, report)| Some((at, report.event?)));
            if let Some(found) = events.find(|(_, event)| wanted(event)) {
                return found;
            }
            assert!(
                Instant::now() < until,
                "no report of {what} within {DEADLINE:?}; the sidecar's log:\n{}",
                pod.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
