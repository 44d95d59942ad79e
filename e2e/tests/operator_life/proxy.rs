//! A way to the API server that counts the writes passing through and can end the operator at one of them. IO on loopback: plain HTTP on
//! the near side, the test's own client on the far side.

use anyhow::{Context, Result};
use http_body_util::BodyExt;
use hyper::{
    Method, Request, Response,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

/// One write as it passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub method: Method,
    pub path: String,
}

#[derive(Default)]
struct Log {
    writes: Vec<Write>,
    /// The answer to this write, counted from one, is never given.
    last: Option<usize>,
}

/// Closed when dropped.
pub struct Proxy {
    pub address: SocketAddr,
    log: Arc<Mutex<Log>>,
    reached: Arc<Notify>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// With `last`, the write of that number still happens, but its answer is withheld: `reached` tells.
    pub async fn listen(client: Client, last: Option<usize>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listen on loopback")?;
        let address = listener.local_addr().context("read the listener's address")?;
        let log = Arc::new(Mutex::new(Log { last, ..Log::default() }));
        let reached = Arc::new(Notify::new());
        let accepting = tokio::spawn(accept(listener, client, log.clone(), reached.clone()));
        Ok(Self { address, log, reached, accepting })
    }

    /// Returns when the last write has happened.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    /// All but those of the Lease, in their order.
    pub fn writes(&self) -> Vec<Write> {
        self.log.lock().unwrap().writes.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, client: Client, log: Arc<Mutex<Log>>, reached: Arc<Notify>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, client.clone(), log.clone(), reached.clone()));
    }
}

async fn serve(stream: TcpStream, client: Client, log: Arc<Mutex<Log>>, reached: Arc<Notify>) {
    let service = service_fn(move |request| {
        let (client, log, reached) = (client.clone(), log.clone(), reached.clone());
        async move { carry(request, &client, &log, &reached).await }
    });
    // The operator may be killed in the middle of anything.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn carry(
    request: Request<Incoming>,
    client: &Client,
    log: &Mutex<Log>,
    reached: &Notify,
) -> Result<Response<Body>> {
    let turn = note(&request, log);
    if turn == Turn::Late {
        std::future::pending::<()>().await;
    }
    let (mut parts, body) = request.into_parts();
    let bytes: Bytes = body.collect().await.context("read the request")?.to_bytes();
    parts.headers.remove(hyper::header::HOST);
    let answer = client.send(Request::from_parts(parts, Body::from(bytes))).await.context("pass the request on")?;
    if turn == Turn::Last {
        reached.notify_one();
        std::future::pending::<()>().await;
    }
    Ok(answer)
}

#[derive(PartialEq, Eq)]
enum Turn {
    InTime,
    /// It happens, but the operator is not to live long enough to hear of it.
    Last,
    /// Not let through.
    Late,
}

fn note(request: &Request<Incoming>, log: &Mutex<Log>) -> Turn {
    let path = request.uri().path().to_owned();
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    if reads || path.contains("/leases") {
        return Turn::InTime;
    }
    let mut log = log.lock().unwrap();
    log.writes.push(Write { method: request.method().clone(), path });
    match log.last {
        Some(last) if log.writes.len() == last => Turn::Last,
        Some(last) if log.writes.len() > last => Turn::Late,
        _ => Turn::InTime,
    }
}
