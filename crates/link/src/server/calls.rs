//! The contract's methods: each checks certificate, leadership and pod, then asks the operator's logic.

use super::{
    Leadership, Operator, Refusal, Session,
    listen::Shared,
    opening::Opened,
    peer::{Admitted, Peer},
    shares::{Kind, Place},
    spread::spread,
};
use crate::contract::{
    Accepted, HeartbeatReply, HeartbeatRequest, Hello, OperatorMessage, ReportReply, ReportRequest, Sender,
    SidecarMessage, WaitReply, WaitRequest, heartbeat_reply::Verdict, line_server::Line, sidecar_message,
};
use futures::stream::BoxStream;
use http::HeaderMap;
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;
use tonic::{Code, Request, Response, Status, Streaming};

/// Commands queued for a sidecar that reads slowly.
const OUTGOING: usize = 4;

pub struct Calls<O> {
    pub shared: Arc<Shared<O>>,
    pub peer: Arc<Peer>,
}

impl<O> Clone for Calls<O> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), peer: self.peer.clone() }
    }
}

impl<O: Operator> Calls<O> {
    pub(super) fn refuse(&self, refusal: Refusal) -> Status {
        let detail = tracing::field::display(&refusal);
        tracing::debug!(reason = refusal.reason(), detail, id = %self.peer.certificate.id, "refused a call");
        self.shared.parts.meter.refused(&refusal);
        refusal.status()
    }

    /// Lets a call in before any of its message is read: its places in the shares of its cluster and its pod.
    pub(super) async fn enter(&self, headers: &HeaderMap) -> Result<[Place; 2], Refusal> {
        let (shares, parts) = (&self.shared.shares, &self.shared.parts);
        let of_cluster = shares.take(&self.peer.cluster, Kind::Call, parts.limits.calls_per_cluster);
        let of_cluster = of_cluster.ok_or(Refusal::TooManyCallsFromCluster)?;
        let proven = self.peer.prove(headers, parts.proof.as_ref(), &parts.limits).await;
        let proven = proven.inspect_err(|refusal| self.turned_away(headers, refusal))?;
        if !self.shared.rates.take(&proven.holder, Instant::now()) {
            return Err(Refusal::TooManyCallsFromPod);
        }
        let of_pod = shares.take(&proven.holder, Kind::Call, parts.limits.calls_per_pod);
        Ok([of_cluster, of_pod.ok_or(Refusal::TooManyCallsFromPod)?])
    }

    /// Tells of whose token was refused, so that somebody sees more than that it is not connected.
    fn turned_away(&self, headers: &HeaderMap, refusal: &Refusal) {
        let Refusal::PodProof(why) = refusal else { return };
        if let Some(claimed) = self.peer.claims(headers, self.shared.parts.proof.as_ref()) {
            self.shared.parts.operator.turned_away(&claimed, why);
        }
    }

    fn stream_places(&self) -> Result<[Place; 2], Refusal> {
        let (shares, limits) = (&self.shared.shares, &self.shared.parts.limits);
        let pod = &self.peer.proven().ok_or(Refusal::NoPodProof)?.holder;
        let of_pod = shares.take(pod, Kind::Stream, limits.streams_per_pod);
        let of_pod = of_pod.ok_or(Refusal::TooManyStreamsFromPod)?;
        let of_cluster = shares.take(&self.peer.cluster, Kind::Stream, limits.streams_per_cluster);
        Ok([of_pod, of_cluster.ok_or(Refusal::TooManyStreamsFromCluster)?])
    }

    fn admit(&self, sender: Option<&Sender>) -> Result<&Admitted, Status> {
        let shared = &self.shared;
        let sender = self.peer.recognise(sender);
        let admitted = sender.and_then(|sender| self.peer.admit(sender, shared.parts.proof.as_ref(), &shared.wakeups));
        admitted.map_err(|refusal| self.refuse(refusal))
    }

    pub(super) fn leadership(&self) -> Leadership {
        self.shared.parts.leadership.borrow().clone()
    }

    /// Fails only when the lead is lost after the call began: replicas that follow do not read calls.
    fn epoch(&self) -> Result<u64, Status> {
        match self.leadership() {
            Leadership::Leader { epoch } => Ok(epoch),
            Leadership::Follower { .. } => Err(self.refuse(Refusal::NotLeader)),
        }
    }

    /// A stream's first message. That it is too large is counted with the others that are.
    async fn hello(&self, incoming: &mut Streaming<SidecarMessage>) -> Result<Hello, Status> {
        match incoming.message().await {
            Ok(Some(SidecarMessage { message: Some(sidecar_message::Message::Hello(hello)) })) => Ok(hello),
            Err(status) if status.code() == Code::OutOfRange => Err(status),
            _ => Err(self.refuse(Refusal::Missing { field: "hello" })),
        }
    }

    fn accepted(&self, epoch: u64, next: Duration, stay_connected: bool) -> HeartbeatReply {
        let accepted = Accepted {
            next_heartbeat_milliseconds: milliseconds(next),
            stay_connected,
            reconnect_spread_milliseconds: milliseconds(spread(self.shared.admission.open())),
        };
        HeartbeatReply { epoch, verdict: Some(Verdict::Accepted(accepted)) }
    }

    /// Opens the job's stream: the task ends with the job, with the sidecar, or with this replica's leadership.
    fn open(&self, session: Session, reading: impl Future<Output = ()> + Send + 'static, open: Open<O>) {
        let (shared, mut closing) = (self.shared.clone(), self.peer.closing.subscribe());
        let drain = shared.parts.limits.drain_time;
        tokio::spawn(async move {
            let _open = open;
            let job = async move { shared.parts.operator.orchestrate(session).await };
            let gone = async {
                reading.await;
                // The logic sees its commands fail and gets a moment to write that down.
                tokio::time::sleep(drain).await;
            };
            tokio::select! {
                () = job => {}
                () = gone => {}
                _ = closing.wait_for(|closing| *closing) => {}
            }
        });
    }
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// Counts an open stream, and keeps a connection from opening two.
struct Open<O> {
    calls: Calls<O>,
    _places: [Place; 2],
}

impl<O: Operator> Open<O> {
    fn stream(calls: &Calls<O>) -> Result<Self, Refusal> {
        let places = calls.stream_places()?;
        if calls.peer.streaming.swap(true, Ordering::AcqRel) {
            return Err(Refusal::SecondStream);
        }
        let streams = calls.shared.streams.fetch_add(1, Ordering::AcqRel) + 1;
        calls.shared.parts.meter.streams(streams);
        Ok(Self { calls: calls.clone(), _places: places })
    }
}

impl<O> Drop for Open<O> {
    fn drop(&mut self) {
        self.calls.peer.streaming.store(false, Ordering::Release);
        let streams = self.calls.shared.streams.fetch_sub(1, Ordering::AcqRel) - 1;
        self.calls.shared.parts.meter.streams(streams);
    }
}

#[tonic::async_trait]
impl<O: Operator> Line for Calls<O> {
    type OrchestrateStream = BoxStream<'static, Result<OperatorMessage, Status>>;

    async fn heartbeat(&self, request: Request<HeartbeatRequest>) -> Result<Response<HeartbeatReply>, Status> {
        let began = Instant::now();
        let beat = request.into_inner();
        let epoch = self.epoch()?;
        let admitted = self.admit(beat.sender.as_ref())?;
        let round_trip = Duration::from_micros(beat.previous_round_trip_microseconds.into());
        let attention = self.shared.parts.operator.heartbeat(&admitted.sidecar, beat).await;
        self.shared.parts.meter.heartbeat(began.elapsed(), Some(round_trip).filter(|time| !time.is_zero()));
        Ok(Response::new(self.accepted(epoch, attention.next_heartbeat, attention.stay_connected)))
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportReply>, Status> {
        let report = request.into_inner();
        let epoch = self.epoch()?;
        let admitted = self.admit(report.sender.as_ref())?;
        self.shared.parts.operator.report(&admitted.sidecar, report).await;
        Ok(Response::new(ReportReply { epoch, not_leader: None }))
    }

    async fn wait(&self, request: Request<WaitRequest>) -> Result<Response<WaitReply>, Status> {
        self.epoch()?;
        self.admit(request.into_inner().sender.as_ref())?;
        // Admitted; `held` keeps the answer back until there is something to say.
        Ok(Response::new(WaitReply { speak_now: true }))
    }

    async fn orchestrate(
        &self,
        request: Request<Streaming<SidecarMessage>>,
    ) -> Result<Response<Self::OrchestrateStream>, Status> {
        let (_, extensions, mut incoming) = request.into_parts();
        let hello = self.hello(&mut incoming).await?;
        self.epoch()?;
        let sidecar = self.admit(hello.sender.as_ref())?.sidecar.clone();
        let open = Open::stream(self).map_err(|refusal| self.refuse(refusal))?;
        if let Some(opened) = extensions.get::<Opened>() {
            opened.open();
        }
        let (outgoing, commands) = mpsc::channel(OUTGOING);
        let (session, reader) = Session::new(sidecar, hello.highest_epoch, outgoing);
        self.open(session, reader.read(incoming), open);
        Ok(Response::new(Box::pin(futures::stream::unfold(commands, |mut commands| async move {
            commands.recv().await.map(|command| (command, commands))
        }))))
    }
}
