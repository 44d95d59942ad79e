//! One accepted connection from handshake to end: TLS, HTTP/2, the clock that ends it, and each call's frame. IO.

use super::{
    Leadership, Limits, Operator, Refusal,
    admission::Ticket,
    calls::Calls,
    held,
    listen::Shared,
    opening::{Opened, Opening},
    peer::Peer,
    replies::{self, ORCHESTRATE, WAIT},
};
use crate::{contract::line_server::LineServer, keep_alive};
use http::{Request, Response};
use hyper::{
    body::{Body as HttpBody, Bytes, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pki::identity::Naming;
use std::{convert::Infallible, net::SocketAddr, pin::pin, sync::Arc, time::Instant};
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{sleep_until, timeout},
};
use tokio_rustls::server::TlsStream;
use tonic::{Code, Status, body::Body};
use tower_service::Service;

/// On the heap, because it moves through several futures and each would keep room for it.
type Stream = Box<TlsStream<TcpStream>>;

/// Serves one peer; what it did wrong is counted and costs it the connection.
pub async fn serve<O: Operator>(shared: Arc<Shared<O>>, stream: TcpStream, from: (SocketAddr, Ticket)) {
    let (address, mut ticket) = from;
    keep_alive::set(&stream);
    let established = Box::pin(unless_displaced(&shared, stream, (address, &mut ticket))).await;
    ticket.established();
    match established {
        Ok((stream, peer)) => run(&shared, stream, peer).await,
        Err(refusal) => {
            tracing::debug!(reason = refusal.reason(), %address, "refused a connection");
            shared.parts.meter.refused(&refusal);
        }
    }
    drop(ticket);
    shared.parts.meter.connections(shared.admission.open());
}

/// A handshake, until others need its place more.
async fn unless_displaced<O>(
    shared: &Shared<O>,
    stream: TcpStream,
    (address, ticket): (SocketAddr, &mut Ticket),
) -> Result<(Stream, Arc<Peer>), Refusal> {
    let limits = &shared.parts.limits;
    tokio::select! {
        biased;
        spoken = first_byte(&stream, limits) => spoken?,
        () = ticket.displaced() => return Err(Refusal::Displaced),
    }
    ticket.spoke();
    tokio::select! {
        // Done is done, however late.
        biased;
        shaken = shake_hands(shared, stream, address) => shaken,
        () = ticket.displaced() => Err(Refusal::Displaced),
    }
}

/// Returns when there is something to read, be it the end.
async fn first_byte(stream: &TcpStream, limits: &Limits) -> Result<(), Refusal> {
    let heard = timeout(limits.first_byte_time, stream.peek(&mut [0])).await;
    heard.map_err(|_| Refusal::FirstByteTime)?.map(drop).map_err(|_| Refusal::Handshake)
}

async fn shake_hands<O>(
    shared: &Shared<O>,
    stream: TcpStream,
    address: SocketAddr,
) -> Result<(Stream, Arc<Peer>), Refusal> {
    let limits = &shared.parts.limits;
    let accepted = timeout(limits.handshake_time, shared.acceptor.accept(stream)).await;
    let stream = accepted.map_err(|_| Refusal::HandshakeTime)?.map_err(|error| Refusal::of_handshake(&error))?;
    let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let leaf = leaf.ok_or(Refusal::Certificate(pki::Refusal::NoCertificate))?;
    let facts = pki::inspect_leaf(leaf).map_err(Refusal::Certificate)?;
    // Sidecars are named as the operator itself is.
    let naming = Naming::of_operator(shared.parts.credentials.borrow().id());
    let peer = Peer::new(shared.next_number(), address, (facts, naming), (&shared.shares, limits))?;
    Ok((Box::new(stream), Arc::new(peer)))
}

async fn run<O: Operator>(shared: &Arc<Shared<O>>, stream: Stream, peer: Arc<Peer>) {
    // Held to the end: the server's stop waits for it.
    let _alive = shared.stopping.subscribe();
    shared.parts.meter.connections(shared.admission.open());
    let calls = Calls { shared: shared.clone(), peer: peer.clone() };
    let service = service_fn(move |request| answer(calls.clone(), request));
    let mut connection = pin!(http(&shared.parts.limits).serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        _ = connection.as_mut() => None,
        why = ending(shared, &peer) => Some(why),
    };
    if let Some(why) = ended {
        tracing::debug!(?why, address = %peer.address, "closing a connection");
        if let Ending::Refused(refusal) = &why {
            shared.parts.meter.refused(refusal);
        }
        peer.closing.send_replace(true);
        connection.as_mut().graceful_shutdown();
        // Calls in flight get their answers; a peer that does not close in time is cut off.
        let _ = timeout(shared.parts.limits.drain_time, connection).await;
    }
    peer.closing.send_replace(true);
    if let Some(admitted) = peer.admitted() {
        shared.parts.operator.disconnected(&admitted.sidecar);
    }
}

fn http(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection)
        .max_header_list_size(limits.header_bytes)
        .initial_stream_window_size(limits.window_bytes)
        // The least that HTTP/2 knows.
        .initial_connection_window_size(65_535)
        .max_send_buf_size(16 * 1024)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(20)
        .auto_date_header(false);
    builder
}

#[derive(Debug)]
enum Ending {
    Stopping,
    LeadershipLost,
    Idle,
    Refused(Refusal),
}

/// Resolves when this end wants to close the connection.
async fn ending<O: Operator>(shared: &Shared<O>, peer: &Peer) -> Ending {
    let mut stopping = shared.stopping.subscribe();
    let mut leadership = shared.parts.leadership.clone();
    tokio::select! {
        _ = stopping.wait_for(|stopping| *stopping) => Ending::Stopping,
        () = leadership_lost(&mut leadership) => Ending::LeadershipLost,
        ending = silence(peer, &shared.parts.limits) => ending,
    }
}

/// A leader that leads no more sends its sidecars to find the next one.
async fn leadership_lost(leadership: &mut watch::Receiver<Leadership>) {
    let leads = |now: &Leadership| matches!(now, Leadership::Leader { .. });
    // A connection may be older than the lead. Without a sender nothing changes any more.
    if leadership.wait_for(leads).await.is_err() || leadership.wait_for(|now| !leads(now)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn silence(peer: &Peer, limits: &Limits) -> Ending {
    sleep_until((Instant::now() + limits.first_call_time).into()).await;
    if peer.admitted().is_none() {
        return Ending::Refused(Refusal::NoFirstCall);
    }
    loop {
        let until = peer.last_call() + limits.idle_time;
        if until <= Instant::now() && !peer.streaming.load(std::sync::atomic::Ordering::Relaxed) {
            return Ending::Idle;
        }
        sleep_until(until.max(Instant::now() + limits.first_call_time).into()).await;
    }
}

async fn answer<O: Operator>(calls: Calls<O>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(taken(&calls, request).await.unwrap_or_else(|refusal| calls.refuse(refusal).into_http()))
}

/// One call: counted, proven, bounded in time and size. A message is read only when its connection's pod is proven.
async fn taken<O: Operator>(calls: &Calls<O>, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    if !calls.peer.called(&calls.shared.parts.limits) {
        return Err(Refusal::TooManyCalls);
    }
    if let Leadership::Follower { leader } = calls.leadership() {
        return replies::not_leader(request.uri().path(), leader);
    }
    let held = request.uri().path() == WAIT;
    // Boxed, so that a held call does not keep their room.
    let places = Box::pin(calls.enter(request.headers())).await?;
    let response = Box::pin(read(calls, request)).await;
    let admitted = Status::from_header_map(response.headers()).is_none_or(|status| status.code() == Code::Ok);
    drop(places);
    if held && admitted {
        drop(response);
        return Ok(held::hold(calls.clone()).await);
    }
    Ok(response)
}

async fn read<O: Operator>(calls: &Calls<O>, mut request: Request<Incoming>) -> Response<Body> {
    let limits = &calls.shared.parts.limits;
    if request.uri().path() != ORCHESTRATE {
        return judged(calls, request, limits.message_bytes).await;
    }
    let opened = Opened::default();
    request.extensions_mut().insert(opened.clone());
    let request = request.map(|body| Opening::new(body, limits.hello_bytes, opened));
    judged(calls, request, limits.answer_bytes).await
}

async fn judged<O: Operator, B>(calls: &Calls<O>, request: Request<B>, size: usize) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
{
    let (limits, meter) = (&calls.shared.parts.limits, &calls.shared.parts.meter);
    let mut service = LineServer::new(calls.clone()).max_decoding_message_size(size);
    let Ok(response) = timeout(limits.call_time, service.call(request)).await else {
        return calls.refuse(Refusal::CallTime).into_http();
    };
    let Ok(response) = response;
    // The size is judged inside the generated code, which says so only with this code.
    if Status::from_header_map(response.headers()).is_some_and(|status| status.code() == Code::OutOfRange) {
        meter.refused(&Refusal::OversizedMessage);
    }
    response
}
