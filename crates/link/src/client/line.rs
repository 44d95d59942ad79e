//! The sidecar's line over its whole life: dial, speak, and dial again when it ends. IO; one task, started by the agent.

use super::{
    DialError, Fence, Node, Notice,
    backoff::{self, FIRST_SPREAD},
    dial::Dialler,
    fence::StaleLeader,
    route::Route,
};
use crate::{
    contract::{ReportRequest, report_request::Event},
    credentials::Current,
    sentence,
};
use pki::SpiffeId;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tonic::Status;

/// Reports kept while there is no connection; the oldest go first.
const MOST_REPORTS: usize = 32;

#[derive(Clone, Debug)]
pub struct Times {
    pub connect: Duration,
    pub call: Duration,
    /// How often a quiet connection is asked for a sign of life, and how long it may take.
    pub ping: Duration,
    pub pong: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(5), call: seconds(10), ping: seconds(20), pong: seconds(5) }
    }
}

pub struct LineParts<N> {
    pub node: Arc<N>,
    pub fence: Arc<Fence>,
    /// `host:port`, each; a name may stand for several replicas.
    pub addresses: Vec<String>,
    /// The one identity that is obeyed.
    pub operator: SpiffeId,
    pub credentials: Current,
    pub times: Times,
}

/// For the sidecar's own health and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineState {
    pub connected: bool,
    pub streaming: bool,
    pub epoch: u64,
    pub round_trip: Duration,
    pub last_heartbeat: Option<SystemTime>,
    /// Thumbprint of the certificate the open connection was made with.
    pub certificate: String,
    pub problem: Option<String>,
}

/// Why a connection ended, or never came to be.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("could not reach the operator")]
    Dial(#[from] DialError),
    #[error("the connection to the operator ended")]
    Closed,
    #[error("the operator refused a call: {}: {}", .0.code(), .0.message())]
    Refused(Status),
    #[error("the operator did not answer in time")]
    Silent,
    #[error(transparent)]
    StaleLeader(#[from] StaleLeader),
    #[error("this replica of the operator does not lead")]
    NotLeader { leader: String },
    #[error("the pod's token could not be read")]
    Token(#[source] std::io::Error),
    #[error("the sidecar ends")]
    Over,
}

impl Ended {
    fn operator_is_there(&self) -> bool {
        !matches!(
            self,
            Self::Dial(
                DialError::NoAddress | DialError::Withdrawn | DialError::Resolve { .. } | DialError::Connect { .. }
            )
        )
    }
}

pub struct Line<N> {
    pub(super) parts: LineParts<N>,
    pub(super) dialler: Arc<Dialler>,
    pub(super) route: Route,
    pub(super) spread: Duration,
    pub(super) reports: VecDeque<ReportRequest>,
    pub(super) state: watch::Sender<LineState>,
    failures: u32,
    /// Who was dialled last was named by a replica.
    named: bool,
}

impl<N: Node> Line<N> {
    pub fn new(parts: LineParts<N>) -> Result<Self, rustls::Error> {
        let dialler = Arc::new(Dialler::new(&parts.credentials, parts.operator.clone(), &parts.times)?);
        let route = Route::new(parts.addresses.clone());
        let (spread, reports, state) = (FIRST_SPREAD, VecDeque::new(), watch::Sender::default());
        Ok(Self { parts, dialler, route, spread, reports, state, failures: 0, named: false })
    }

    pub fn state(&self) -> watch::Receiver<LineState> {
        self.state.subscribe()
    }

    /// Returns when the sender of notices is gone.
    pub async fn run(mut self, mut notices: mpsc::Receiver<Notice>) {
        let mut delay = backoff::delay(0, self.spread, fastrand::f64());
        while self.pause(delay, &mut notices).await {
            let ended = self.connect_and_speak(&mut notices).await;
            if matches!(ended, Ended::Over) {
                return;
            }
            delay = self.after(&ended);
            self.note(&ended, delay);
        }
    }

    async fn connect_and_speak(&mut self, notices: &mut mpsc::Receiver<Notice>) -> Ended {
        let Some(target) = self.route.pick() else { return DialError::NoAddress.into() };
        self.named = target.named;
        // What is in force now is what the connection is made with; a change after this line is a change.
        self.parts.credentials.mark_unchanged();
        match self.dialler.dial(target).await {
            Ok(open) => self.speak(open, notices).await,
            Err(error) => error.into(),
        }
    }

    /// Waits, keeping the reports that come meanwhile; false when the sender of notices is gone.
    async fn pause(&mut self, delay: Duration, notices: &mut mpsc::Receiver<Notice>) -> bool {
        let mut over = std::pin::pin!(sleep(delay));
        loop {
            tokio::select! {
                () = over.as_mut() => return true,
                notice = notices.recv() => match notice {
                    Some(Notice::Report(event)) => self.keep(event),
                    Some(Notice::Changed) => {}
                    None => return false,
                },
            }
        }
    }

    fn after(&mut self, ended: &Ended) -> Duration {
        let mut spread = self.spread;
        match ended {
            Ended::NotLeader { leader } if self.route.not_leader(leader) => {
                return Duration::from_millis(fastrand::u64(0..200));
            }
            // Not a failure: the next leader is not known yet, or the last one was named and is gone.
            Ended::NotLeader { .. } => return backoff::between_leaders(spread, fastrand::f64()),
            Ended::Dial(DialError::Connect { .. } | DialError::Time { .. }) if self.named => {
                return backoff::between_leaders(spread, fastrand::f64());
            }
            Ended::Closed => self.failures = 0,
            other => {
                self.failures = self.failures.saturating_add(1);
                // An operator that is there and turns callers away has a queue, not an outage.
                spread = if other.operator_is_there() { spread / 2 } else { spread };
            }
        }
        backoff::delay(self.failures, spread, fastrand::f64())
    }

    pub(super) fn settled(&mut self) {
        self.failures = 0;
        self.route.settled();
    }

    fn note(&self, ended: &Ended, delay: Duration) {
        let problem = sentence::of(ended);
        let was = self.state.borrow().problem.clone();
        if was.as_ref() != Some(&problem) {
            tracing::info!(problem, ?delay, "not connected to the operator");
        }
        self.state.send_modify(|state| {
            state.connected = false;
            state.streaming = false;
            state.problem = Some(problem);
        });
    }

    pub(super) fn keep(&mut self, event: Event) {
        if self.reports.len() >= MOST_REPORTS {
            self.reports.pop_front();
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.reports.push_back(ReportRequest {
            sender: Some(self.parts.node.sender()),
            event_id: format!("{:016x}", fastrand::u64(..)),
            at_unix_milliseconds: u64::try_from(now.as_millis()).unwrap_or_default(),
            event: Some(event),
        });
    }
}
