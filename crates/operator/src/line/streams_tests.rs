//! Commands over real sockets: an operator's line and sidecars that speak to it.

use super::meter::LineMeter;
use super::report_log::ReportLog;
use super::service::LineService;
use super::{CommandError, Line};
use crate::metrics::Metrics;
use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use link::Credentials;
use link::client::{self, LineParts, Node, Order, Times};
use link::contract::answer::Outcome;
use link::contract::command::Action;
use link::contract::{Done, Fence, HeartbeatRequest, Meet, Probe, Sender};
use link::server::{Leadership, Limits, PodProof, ProofError, ProvenPod, Server, ServerParts};
use pki::{Authority, Scope, SystemRandomness};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

const HOUR: Duration = Duration::from_secs(3600);
const SECONDS: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(20);

fn pod(name: &str) -> ProvenPod {
    let text = |text: &str| text.to_owned();
    ProvenPod {
        namespace: text("team-a"),
        cluster: text("orders"),
        cluster_uid: text("cluster"),
        pod: text(name),
        pod_uid: format!("uid-of-{name}"),
    }
}

struct NameIsProof;

impl PodProof for NameIsProof {
    fn prove<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<ProvenPod, ProofError>> {
        Box::pin(async move { Ok(pod(token)) })
    }
}

struct Obedient(String);

impl Node for Obedient {
    fn sender(&self) -> Sender {
        let pod = pod(&self.0);
        Sender {
            namespace: pod.namespace,
            cluster: pod.cluster,
            cluster_uid: pod.cluster_uid,
            pod: pod.pod,
            pod_uid: pod.pod_uid,
            sidecar_version: "0.1.0".to_owned(),
        }
    }

    async fn token(&self) -> io::Result<Zeroizing<String>> {
        Ok(Zeroizing::new(self.0.clone()))
    }

    async fn heartbeat(&self) -> HeartbeatRequest {
        HeartbeatRequest::default()
    }

    async fn execute(&self, order: Order) -> Outcome {
        if matches!(order.action, Action::Meet(_)) {
            // Stands for a Valkey that does not answer.
            std::future::pending::<()>().await;
        }
        Outcome::Done(Done { did: self.0.clone(), ..Done::default() })
    }
}

struct Running {
    line: Arc<Line>,
    leadership: watch::Sender<Leadership>,
    address: String,
    root: Authority,
    task: JoinHandle<()>,
}

struct Connected {
    _notices: mpsc::Sender<client::Notice>,
    _credentials: watch::Sender<Arc<Credentials>>,
    state: watch::Receiver<client::LineState>,
    task: JoinHandle<()>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn credentials(root: &Authority, scope: &Scope) -> Arc<Credentials> {
    let now = Timestamp::now();
    let below = root.intermediate(scope, 9 * HOUR, now, &SystemRandomness).unwrap();
    let leaf = below.leaf(&scope.identity(), HOUR, now, &SystemRandomness).unwrap();
    let (chain, key) = (leaf.chain_pem.as_bytes(), leaf.key_pem.as_bytes());
    Arc::new(Credentials::with_bundle(chain, key, root.bundle().unwrap()).unwrap())
}

impl Running {
    async fn start() -> Self {
        let domain = "valkey-system".parse().unwrap();
        let root = Authority::root(&domain, 99 * HOUR, Timestamp::now(), &SystemRandomness).unwrap();
        let leadership = watch::Sender::new(Leadership::Leader { epoch: 7 });
        let line = Arc::new(Line::new(leadership.subscribe()));
        let metrics = Arc::new(Metrics::new());
        let service = LineService {
            roster: line.roster.clone(),
            streams: line.streams.clone(),
            log: ReportLog::new(metrics.clone()),
            heartbeat_interval: Duration::from_secs(60),
        };
        let shown = watch::Sender::new(credentials(&root, &Scope::operator("valkey-system").unwrap()));
        let server = Server::new(ServerParts {
            operator: Arc::new(service),
            proof: Arc::new(NameIsProof),
            meter: Arc::new(LineMeter(metrics)),
            limits: Limits::default(),
            credentials: shown.subscribe(),
            leadership: leadership.subscribe(),
        })
        .unwrap();
        line.streams.call_with(server.wakeups());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(server.run(listener, std::future::pending()));
        Self { line, leadership, address, root, task }
    }

    async fn sidecar(&self, name: &str) -> Connected {
        let connected = self.claiming(name, 0);
        let uid = pod(name).pod_uid;
        until("the first heartbeat", || self.line.roster.of_pod(&uid).is_some_and(|facts| facts.connected)).await;
        connected
    }

    fn claiming(&self, name: &str, epoch: u64) -> Connected {
        let credentials = watch::Sender::new(credentials(&self.root, &Scope::cluster("team-a", "orders").unwrap()));
        let times = Times { connect: SECONDS, call: SECONDS, ping: SECONDS, pong: SECONDS };
        let line = client::Line::new(LineParts {
            node: Arc::new(Obedient(name.to_owned())),
            fence: Arc::new(client::Fence::unwritten("cluster".to_owned(), epoch)),
            addresses: vec![self.address.clone()],
            operator: pki::identity::operator("valkey-system").unwrap(),
            credentials: credentials.subscribe(),
            times,
        })
        .unwrap();
        let (notices, received) = mpsc::channel(4);
        let (state, task) = (line.state(), tokio::spawn(line.run(received)));
        Connected { _notices: notices, _credentials: credentials, state, task }
    }

    async fn command(&self, name: &str, action: Action, deadline: Duration) -> Result<Outcome, CommandError> {
        let epoch = self.line.streams.epoch().unwrap_or_default();
        let orchestration_id = "job".to_owned();
        let fence = Fence { cluster_uid: "cluster".to_owned(), orchestration_id, step_version: 1, epoch };
        let uid = pod(name).pod_uid;
        let command = self.line.streams.command(&uid, fence, action, deadline);
        tokio::time::timeout(DEADLINE, command).await.unwrap()
    }

    async fn probe(&self, name: &str) -> String {
        match self.command(name, Action::Probe(Probe {}), SECONDS).await.unwrap() {
            Outcome::Done(done) => done.did,
            other => panic!("{other:?}"),
        }
    }

    fn streams(&self, name: &str) -> bool {
        self.line.roster.of_pod(&pod(name).pod_uid).is_some_and(|facts| facts.streaming)
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !condition() {
        assert!(tokio::time::Instant::now() < end, "waited {DEADLINE:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_command_opens_the_stream_and_the_next_ones_use_it() {
    let running = Running::start().await;
    let sidecar = running.sidecar("orders-0").await;
    assert!(!sidecar.state.borrow().streaming);
    assert_eq!(running.probe("orders-0").await, "orders-0");
    assert!(sidecar.state.borrow().streaming && running.streams("orders-0"));
    let (one, two) = futures::future::join(running.probe("orders-0"), running.probe("orders-0")).await;
    assert_eq!((one.as_str(), two.as_str()), ("orders-0", "orders-0"));
}

#[tokio::test]
async fn commands_to_several_pods_go_on_beside_one_that_hangs() {
    let running = Running::start().await;
    let _sidecars = (running.sidecar("orders-0").await, running.sidecar("orders-1").await);
    let hangs = running.command("orders-0", Action::Meet(Meet::default()), Duration::from_millis(500));
    let others = futures::future::join(running.probe("orders-0"), running.probe("orders-1"));
    let (hung, others) = futures::future::join(hangs, others).await;
    assert_eq!(others, ("orders-0".to_owned(), "orders-1".to_owned()));
    assert!(matches!(hung, Ok(Outcome::Failed(failed)) if failed.deadline_passed));
}

#[tokio::test]
async fn a_released_stream_ends_and_a_later_command_opens_another() {
    let running = Running::start().await;
    let sidecar = running.sidecar("orders-0").await;
    running.probe("orders-0").await;
    running.line.streams.release(&pod("orders-0").pod_uid);
    until("the end of the stream", || !sidecar.state.borrow().streaming && !running.streams("orders-0")).await;
    assert_eq!(running.probe("orders-0").await, "orders-0");
}

#[tokio::test]
async fn a_command_to_a_pod_that_is_not_connected_fails_at_once_and_leaves_nothing_behind() {
    let running = Running::start().await;
    let answer = running.command("orders-9", Action::Probe(Probe {}), SECONDS).await;
    assert!(matches!(answer, Err(CommandError::NotConnected { .. })), "{answer:?}");
    assert!(!running.line.streams.wants(&pod("orders-9").pod_uid));
}

#[tokio::test]
async fn a_lost_stream_fails_its_commands_and_the_next_one_finds_the_returned_sidecar() {
    let running = Running::start().await;
    let sidecar = running.sidecar("orders-0").await;
    running.probe("orders-0").await;
    let hangs = running.command("orders-0", Action::Meet(Meet::default()), Duration::from_secs(60));
    let vanishes = async move { drop(sidecar) };
    let (lost, ()) = futures::future::join(hangs, vanishes).await;
    assert!(matches!(lost, Err(CommandError::NotAnswered { .. })), "{lost:?}");
    until("the roster to know", || !running.line.roster.of_pod(&pod("orders-0").pod_uid).unwrap().connected).await;
    let _back = running.sidecar("orders-0").await;
    assert_eq!(running.probe("orders-0").await, "orders-0");
}

#[tokio::test]
async fn a_leader_that_leads_no_more_commands_nobody() {
    let running = Running::start().await;
    let _sidecar = running.sidecar("orders-0").await;
    running.probe("orders-0").await;
    let hangs = running.command("orders-0", Action::Meet(Meet::default()), Duration::from_secs(60));
    let resigns = async { running.leadership.send_replace(Leadership::Follower { leader: None }) };
    let (lost, _) = futures::future::join(hangs, resigns).await;
    assert!(matches!(lost, Err(CommandError::NotAnswered { .. } | CommandError::NotLeader)), "{lost:?}");
    assert_eq!(running.line.streams.epoch(), None);
    let answer = running.command("orders-0", Action::Probe(Probe {}), SECONDS).await;
    assert!(matches!(answer, Err(CommandError::NotLeader)), "{answer:?}");
}

#[tokio::test]
async fn a_sidecar_that_claims_a_higher_term_is_heard_and_changes_the_term_of_nobody() {
    let running = Running::start().await;
    let _liar = running.claiming("orders-0", 1 << 40);
    let _honest = running.claiming("orders-1", 7);
    // It takes this leader for an old one and goes, but it was heard.
    let (liar, honest) = (pod("orders-0").pod_uid, pod("orders-1").pod_uid);
    until("the claim", || running.line.roster.of_pod(&liar).is_some_and(|facts| facts.beat.highest_epoch > 7)).await;
    until("the other", || running.line.roster.of_pod(&honest).is_some_and(|facts| facts.connected)).await;
    assert_eq!(running.line.streams.epoch(), Some(7));
    assert_eq!(running.probe("orders-1").await, "orders-1");
}
