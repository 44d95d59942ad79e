//! Two tenants who mean harm, in a process of their own and from an address of their own: one has a cluster's certificate and no pod,
//! the other a real pod. Both take what they can get, as fast as they can. IO.

use crate::{
    bare,
    certificates::{Files, NAMESPACE},
    child::orders,
    fleet,
};
use anyhow::{Context, Result};
use futures::future::join_all;
use http::{Request as HttpRequest, Response};
use http_body_util::StreamBody;
use hyper::{
    body::{Bytes, Frame, Incoming},
    client::conn::http2,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use link::{
    channel::Channel,
    contract::{
        HeartbeatRequest, Hello, ReportRequest, Revisions, Sender, SidecarMessage, ValkeyDied, line_client::LineClient,
        report_request::Event, sidecar_message::Message,
    },
};
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use std::{
    cell::Cell,
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    time::Duration,
};
use tokio::{
    net::TcpSocket,
    task::LocalSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;
use tonic::{Code, Request, Status, body::Body};

pub const CLUSTER: &str = "hostile";
/// Dialling at once, and held: more than the operator lets in without a proof.
const STRANGERS: usize = 400;
/// More than a pod may have.
const CONNECTIONS_OF_A_POD: usize = 8;
const STREAMS: usize = 8;
const PIECE: usize = 16 * 1024;
const LARGE: u32 = 1024 * 1024;
/// What a heartbeat or report is filled with, just below the limit.
const FULL: usize = 60 * 1024;
/// How long one that has been refused stays, so as to take room.
const LINGER: Duration = Duration::from_secs(5);
/// After a connection that did not come up; without it the kernel alone is kept busy.
const REFUSED: Duration = Duration::from_millis(2);

/// What they tried since they were last asked.
#[derive(Default, Clone, Serialize, Deserialize)]
pub struct Tried {
    pub connections: u64,
    pub established: u64,
    pub calls: u64,
    pub accepted: u64,
    pub bytes: u64,
}

#[derive(Default)]
struct Counting {
    connections: Cell<u64>,
    established: Cell<u64>,
    calls: Cell<u64>,
    accepted: Cell<u64>,
    bytes: Cell<u64>,
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

impl Counting {
    fn take(&self) -> Tried {
        Tried {
            connections: self.connections.take(),
            established: self.established.take(),
            calls: self.calls.take(),
            accepted: self.accepted.take(),
            bytes: self.bytes.take(),
        }
    }
}

#[derive(Clone)]
struct Tenant {
    connector: TlsConnector,
    address: SocketAddr,
    counting: Rc<Counting>,
}

pub async fn attack() -> Result<()> {
    let (orders, mut questions) = orders()?;
    let tenant = Tenant::new(&orders.files, &orders.address)?;
    println!("attacking");
    let local = LocalSet::new();
    for _ in 0..STRANGERS {
        drop(local.spawn_local(stranger(tenant.clone())));
    }
    for _ in 0..CONNECTIONS_OF_A_POD {
        drop(local.spawn_local(insider(tenant.clone())));
    }
    local
        .run_until(async {
            while questions.recv().await.is_some() {
                println!("{}", serde_json::to_string(&tenant.counting.take()).unwrap_or_default());
            }
        })
        .await;
    Ok(())
}

impl Tenant {
    fn new(files: &Files, address: &str) -> Result<Self> {
        Ok(Self { connector: bare::connector(files)?, address: address.parse()?, counting: Rc::default() })
    }

    async fn connect(&self) -> Result<Channel> {
        add(&self.counting.connections, 1);
        let socket = TcpSocket::new_v4()?;
        // Not where the fleet dials from: what an address may take is taken from this one.
        socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into())?;
        let stream = timeout(LINGER, socket.connect(self.address)).await??;
        let stream = timeout(LINGER, self.connector.connect(ServerName::try_from("operator")?, stream)).await??;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        add(&self.counting.established, 1);
        drop(tokio::spawn(connection));
        Ok(Channel { sender })
    }
}

/// A certificate and no proof: eight streams a connection, each with a MiB to say.
async fn stranger(tenant: Tenant) {
    loop {
        if round_of_a_stranger(&tenant).await.is_err() {
            sleep(REFUSED).await;
        }
    }
}

async fn round_of_a_stranger(tenant: &Tenant) -> Result<()> {
    let channel = tenant.connect().await?;
    let tokens = [None, Some("nonsense")].into_iter().cycle().take(STREAMS);
    let calls = tokens.map(|token| large(tenant, channel.clone(), token));
    let _ = timeout(LINGER, join_all(calls)).await;
    sleep(LINGER).await;
    Ok(())
}

async fn large(tenant: &Tenant, mut channel: Channel, token: Option<&str>) -> Result<Response<Incoming>> {
    let head: Vec<u8> = [0].into_iter().chain(LARGE.to_be_bytes()).collect();
    let pieces = (0..LARGE as usize / PIECE).map(|_| vec![b'x'; PIECE]);
    let frames = std::iter::once(head).chain(pieces).map(|piece| Ok::<_, Status>(Frame::data(Bytes::from(piece))));
    let body = Body::new(StreamBody::new(futures::stream::iter(frames)));
    let request = HttpRequest::post("https://operator/valkey.operator.v1.Line/Orchestrate");
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    let request = match token {
        Some(token) => request.header("authorization", format!("Bearer {token}")),
        None => request,
    };
    add(&tenant.counting.calls, 1);
    Ok(channel.sender.send_request(request.body(body)?).await?)
}

/// A real pod: heartbeats, reports and streams as large as they may be, one after another on eight streams of each connection.
async fn insider(tenant: Tenant) {
    loop {
        if round_of_an_insider(&tenant).await.is_err() {
            sleep(REFUSED).await;
        }
    }
}

async fn round_of_an_insider(tenant: &Tenant) -> Result<()> {
    let channel = tenant.connect().await?;
    let mut client = LineClient::with_origin(channel, "https://operator".parse()?);
    said(tenant, client.heartbeat(proven(beat())?).await)?;
    let streams = (0..STREAMS).map(|number| endless(tenant, client.clone(), number));
    // Until the connection is gone.
    let ended = join_all(streams).await;
    ended.into_iter().collect()
}

/// The answer to one call; an error once the connection is lost.
fn said<T>(tenant: &Tenant, answer: Result<T, Status>) -> Result<()> {
    add(&tenant.counting.calls, 1);
    match answer {
        Ok(_) => {
            add(&tenant.counting.accepted, 1);
            add(&tenant.counting.bytes, FULL as u64);
            Ok(())
        }
        Err(status) if is_lost(&status) => Err(status).context("the connection is lost"),
        Err(_) => Ok(()),
    }
}

/// A refusal is the operator's word and has no cause beneath.
fn is_lost(status: &Status) -> bool {
    std::error::Error::source(status).is_some() || matches!(status.code(), Code::Unknown | Code::Cancelled)
}

async fn endless(tenant: &Tenant, mut client: LineClient<Channel>, number: usize) -> Result<()> {
    loop {
        match number % 3 {
            0 => said(tenant, client.report(report()).await)?,
            1 => said(tenant, client.heartbeat(beat()).await)?,
            _ => {
                let hello = Hello { sender: Some(sender()), highest_epoch: u64::MAX };
                let hello = SidecarMessage { message: Some(Message::Hello(hello)) };
                let silent =
                    futures::StreamExt::chain(futures::stream::once(async { hello }), futures::stream::pending());
                let answer = timeout(LINGER, client.orchestrate(silent)).await?;
                said(tenant, answer)?;
            }
        }
        // Others in this process get their turn.
        tokio::task::yield_now().await;
    }
}

fn proven(beat: HeartbeatRequest) -> Result<Request<HeartbeatRequest>> {
    let mut request = Request::new(beat);
    let token = format!("Bearer {NAMESPACE}/{CLUSTER}/{CLUSTER}-0");
    request.metadata_mut().insert("authorization", token.parse()?);
    Ok(request)
}

fn sender() -> Sender {
    fleet::sender(CLUSTER, &format!("{CLUSTER}-0"))
}

/// It tells no time of its own: those that are counted are the others'.
fn beat() -> HeartbeatRequest {
    let revisions = Revisions { refused: vec!["x".repeat(FULL)], ..Revisions::default() };
    HeartbeatRequest {
        sender: Some(sender()),
        highest_epoch: u64::MAX,
        revisions: Some(revisions),
        ..HeartbeatRequest::default()
    }
}

fn report() -> ReportRequest {
    let died = ValkeyDied { exit_status: 1, detail: "x".repeat(FULL) };
    ReportRequest {
        sender: Some(sender()),
        event_id: fastrand::u64(..).to_string(),
        event: Some(Event::ValkeyDied(died)),
        ..ReportRequest::default()
    }
}
