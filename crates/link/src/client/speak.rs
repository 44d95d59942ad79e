//! One connection's conversation: heartbeats, reports, the call that waits, the job's stream, and the change to a
//! connection with a new certificate, which waits for the stream to end. IO.

use super::{
    DialError, Line, Node, Notice,
    dial::{Dialler, Open},
    line::Ended,
    pace,
    route::Target,
    stream::Stream,
};
use crate::{
    PROOF_METADATA, PROOF_PREFIX,
    channel::Channel,
    contract::{
        Accepted, HeartbeatCause, HeartbeatReply, WaitRequest, heartbeat_reply::Verdict, line_client::LineClient,
    },
};
use futures::future::{BoxFuture, FutureExt, pending};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tonic::{Code, Request, Status, metadata::MetadataValue};

/// When a connection with the new certificate cannot be had, the old one serves on and this is the next try.
const ROTATE_AGAIN: Duration = Duration::from_secs(5);

/// Over how many of the operator's spreads the change of certificates is spread.
const ROTATION_SPREADS: f64 = 4.0;

/// After a job's stream broke.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A running job; it ends with the conversation.
struct Job(JoinHandle<Result<(), Status>>);

impl Drop for Job {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Conversation {
    open: Open,
    job: Option<Job>,
    /// The held call, while it is held.
    waiting: Option<BoxFuture<'static, bool>>,
    next: Instant,
    rotate: Option<Instant>,
    /// The connection with the new certificate, while it is made: this one serves on meanwhile.
    dialling: Option<BoxFuture<'static, Dialled>>,
}

/// On the heap: thousands of conversations would each keep room for it.
type Dialled = Box<Result<Open, DialError>>;

/// What made the conversation go on.
enum Turn {
    Beat(HeartbeatCause),
    Report,
    Rotate(Dialled),
}

impl<N: Node> Line<N> {
    /// Speaks until the connection ends; says why it did.
    pub(super) async fn speak(&mut self, open: Open, notices: &mut mpsc::Receiver<Notice>) -> Ended {
        let mut talk =
            Conversation { open, job: None, waiting: None, next: Instant::now(), rotate: None, dialling: None };
        match self.converse(&mut talk, notices).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn converse(
        &mut self,
        talk: &mut Conversation,
        notices: &mut mpsc::Receiver<Notice>,
    ) -> Result<Infallible, Ended> {
        self.beat_and_go_on(talk, HeartbeatCause::Connected).await?;
        loop {
            match self.turn(talk, notices).await? {
                Turn::Beat(cause) => self.beat_and_go_on(talk, cause).await?,
                Turn::Report => self.send_reports(&mut talk.open).await?,
                Turn::Rotate(dialled) => self.rotate(talk, dialled).await,
            }
        }
    }

    /// Waits for something to do.
    async fn turn(&mut self, talk: &mut Conversation, notices: &mut mpsc::Receiver<Notice>) -> Result<Turn, Ended> {
        let idle = talk.job.is_none();
        let rotate = talk.rotate;
        tokio::select! {
            _ = &mut talk.open.ended => Err(Ended::Closed),
            notice = notices.recv() => match notice.ok_or(Ended::Over)? {
                Notice::Changed => Ok(Turn::Beat(HeartbeatCause::Changed)),
                Notice::Report(event) => {
                    self.keep(event);
                    Ok(Turn::Report)
                }
            },
            ended = join(&mut talk.job) => {
                self.job_ended(talk, ended);
                Ok(Turn::Report)
            }
            changed = self.parts.credentials.changed(), if idle => match changed {
                // Pods of one cluster get their new certificate together; they do not all come with it together.
                Ok(()) => {
                    talk.rotate = Some(Instant::now() + self.spread.mul_f64(ROTATION_SPREADS * fastrand::f64()));
                    Ok(Turn::Report)
                }
                Err(_) => Err(Ended::Over),
            },
            () = at(rotate), if idle => {
                talk.rotate = None;
                self.parts.credentials.mark_unchanged();
                talk.dialling = Some(dial(self.dialler.clone(), talk.open.peer));
                Ok(Turn::Report)
            }
            dialled = held(&mut talk.dialling), if idle => {
                talk.dialling = None;
                Ok(Turn::Rotate(dialled))
            }
            speak_now = held(&mut talk.waiting) => {
                talk.waiting = None;
                // Otherwise the operator closes the connection, and `ended` follows.
                if speak_now { Ok(Turn::Beat(HeartbeatCause::Changed)) } else { Ok(Turn::Report) }
            }
            () = sleep_until(talk.next) => Ok(Turn::Beat(HeartbeatCause::Interval)),
        }
    }

    async fn beat_and_go_on(&mut self, talk: &mut Conversation, cause: HeartbeatCause) -> Result<(), Ended> {
        let accepted = self.beat(&mut talk.open, cause).await?;
        self.settled();
        self.send_reports(&mut talk.open).await?;
        let wish = Duration::from_millis(accepted.next_heartbeat_milliseconds.into());
        let first = cause == HeartbeatCause::Connected;
        talk.next = Instant::now() + pace::next(wish, first, fastrand::f64());
        if accepted.stay_connected && talk.job.is_none() {
            talk.job = Some(self.start_job(&talk.open));
            self.state.send_modify(|state| state.streaming = true);
        }
        if talk.waiting.is_none() {
            talk.waiting = Some(self.wait(&talk.open));
        }
        Ok(())
    }

    fn wait(&self, open: &Open) -> BoxFuture<'static, bool> {
        wait(open.client.clone(), WaitRequest { sender: Some(self.parts.node.sender()) })
    }

    /// An ended stream waits to be asked for again; a broken one is asked about soon.
    fn job_ended(&self, talk: &mut Conversation, ended: Result<(), Status>) {
        talk.job = None;
        self.state.send_modify(|state| state.streaming = false);
        if let Err(status) = ended {
            tracing::info!(code = ?status.code(), detail = status.message(), "the job's stream broke");
            talk.next = talk.next.min(Instant::now() + ASK_AGAIN.mul_f64(0.5 + fastrand::f64()));
        }
    }

    async fn beat(&mut self, open: &mut Open, cause: HeartbeatCause) -> Result<Accepted, Ended> {
        let mut beat = self.parts.node.heartbeat().await;
        beat.sender = Some(self.parts.node.sender());
        beat.highest_epoch = self.parts.fence.highest();
        beat.cause = cause.into();
        beat.previous_round_trip_microseconds = u32::try_from(open.round_trip.as_micros()).unwrap_or(u32::MAX);
        let request = self.with_proof(open, Request::new(beat)).await?;
        let sent = Instant::now();
        let reply = timeout(self.parts.times.call, open.client.heartbeat(request)).await;
        let reply = reply.map_err(|_| Ended::Silent)?.map_err(Ended::Refused)?.into_inner();
        open.round_trip = sent.elapsed();
        self.judge(reply, open)
    }

    fn judge(&mut self, reply: HeartbeatReply, open: &mut Open) -> Result<Accepted, Ended> {
        let accepted = match reply.verdict {
            Some(Verdict::Accepted(accepted)) => accepted,
            Some(Verdict::NotLeader(other)) => return Err(Ended::NotLeader { leader: other.leader }),
            None => return Err(Ended::Refused(Status::internal("the reply has no verdict this sidecar knows"))),
        };
        self.parts.fence.observe(reply.epoch)?;
        open.proven = true;
        self.spread = Duration::from_millis(accepted.reconnect_spread_milliseconds.into());
        let (round_trip, certificate) = (open.round_trip, open.certificate.clone());
        self.state.send_modify(|state| {
            state.connected = true;
            state.epoch = reply.epoch;
            state.round_trip = round_trip;
            state.last_heartbeat = Some(SystemTime::now());
            state.certificate = certificate;
            state.problem = None;
        });
        Ok(accepted)
    }

    /// The first calls of a connection carry the pod's token, until one was accepted.
    async fn with_proof<T>(&self, open: &Open, mut request: Request<T>) -> Result<Request<T>, Ended> {
        if !open.proven {
            let token = self.parts.node.token().await.map_err(Ended::Token)?;
            let value = zeroize::Zeroizing::new(format!("{PROOF_PREFIX}{}", token.trim()));
            let mut value = MetadataValue::try_from(value.as_str())
                .map_err(|_| Ended::Token(std::io::Error::from(std::io::ErrorKind::InvalidData)))?;
            value.set_sensitive(true);
            request.metadata_mut().insert(PROOF_METADATA, value);
        }
        Ok(request)
    }

    async fn send_reports(&mut self, open: &mut Open) -> Result<(), Ended> {
        while let Some(report) = self.reports.front() {
            let sent = timeout(self.parts.times.call, open.client.report(report.clone())).await;
            match sent.map_err(|_| Ended::Silent)? {
                Ok(reply) => match reply.into_inner().not_leader {
                    Some(other) => return Err(Ended::NotLeader { leader: other.leader }),
                    None => drop(self.reports.pop_front()),
                },
                // A report that cannot be taken, now or ever, must not stand in the way of the others.
                Err(status) if status.code() == Code::InvalidArgument || status.code() == Code::OutOfRange => {
                    drop(self.reports.pop_front());
                }
                Err(status) => return Err(Ended::Refused(status)),
            }
        }
        Ok(())
    }

    fn start_job(&self, open: &Open) -> Job {
        let (node, fence) = (self.parts.node.clone(), Arc::clone(&self.parts.fence));
        Job(tokio::spawn(Stream { client: open.client.clone(), node, fence }.run()))
    }

    /// Makes a connection with the new certificate before the old one is let go, so that no call fails.
    async fn rotate(&mut self, talk: &mut Conversation, dialled: Dialled) {
        if let Err(problem) = self.change_connection(talk, dialled).await {
            tracing::warn!(%problem, "could not connect with the new certificate; the old connection serves on");
            talk.rotate = Some(Instant::now() + ROTATE_AGAIN.mul_f64(1.0 + fastrand::f64()));
        }
    }

    async fn change_connection(&mut self, talk: &mut Conversation, dialled: Dialled) -> Result<(), Ended> {
        let mut fresh = (*dialled)?;
        self.beat(&mut fresh, HeartbeatCause::Changed).await?;
        talk.open = fresh;
        talk.waiting = Some(self.wait(&talk.open));
        Ok(())
    }
}

async fn join(job: &mut Option<Job>) -> Result<(), Status> {
    match job {
        Some(job) => (&mut job.0).await.unwrap_or_else(|_| Err(Status::aborted("the job's task ended"))),
        None => pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

async fn held<T>(waiting: &mut Option<BoxFuture<'static, T>>) -> T {
    match waiting {
        Some(waiting) => waiting.await,
        None => pending().await,
    }
}

/// To the same replica: a name may lead to another one, which does not lead.
fn dial(dialler: Arc<Dialler>, peer: SocketAddr) -> BoxFuture<'static, Dialled> {
    let target = Target { address: peer.to_string(), named: false };
    async move { Box::new(dialler.dial(target).await) }.boxed()
}

/// The held call: true when the operator wants a heartbeat now.
fn wait(mut client: LineClient<Channel>, request: WaitRequest) -> BoxFuture<'static, bool> {
    async move {
        match client.wait(request).await {
            Ok(reply) => reply.into_inner().speak_now,
            // An operator without this method, or a connection about to end: heartbeats go on by the clock.
            Err(_) => false,
        }
    }
    .boxed()
}
