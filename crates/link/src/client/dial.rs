//! From an address to an open connection: name, TCP, TLS with the operator's exact identity, HTTP/2. IO.

use super::{line::Times, route::Target};
use crate::{
    channel::Channel, contract::line_client::LineClient, credentials::Current, keep_alive, tls, verify::explain,
};
use http::Uri;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pki::SpiffeId;
use rustls::pki_types::ServerName;
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    net::{TcpStream, lookup_host},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// What the operator sends is small; a larger message is a mistake.
const LARGEST_MESSAGE: usize = 256 * 1024;
/// Where there are others to ask: a pod that is gone answers nothing, and a lost packet is sent again within this time.
const ONE_OF_SEVERAL: Duration = Duration::from_millis(1_500);
/// Never resolved and never verified: the operator is known by its SPIFFE ID.
const NAME: &str = "valkey-operator";

#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("no operator address is configured")]
    NoAddress,
    #[error("the identity of this end was withdrawn by its source")]
    Withdrawn,
    #[error("could not resolve {address}")]
    Resolve { address: String, source: io::Error },
    #[error("could not connect to {address}")]
    Connect { address: String, source: io::Error },
    #[error("the TLS handshake with {address} failed: {reason}")]
    Handshake { address: String, reason: String },
    #[error("{address} does not speak HTTP/2")]
    Http { address: String, source: hyper::Error },
    #[error("connecting to {address} took longer than {limit:?}")]
    Time { address: String, limit: Duration },
}

pub struct Open {
    pub client: LineClient<Channel>,
    /// The very replica, whatever name it was found by.
    pub peer: SocketAddr,
    /// Ends with the connection.
    pub ended: JoinHandle<()>,
    /// Whether a call with the pod's token was accepted on this connection.
    pub proven: bool,
    pub round_trip: Duration,
    /// Thumbprint of the certificate this end showed.
    pub certificate: String,
}

/// How to dial, whatever the address.
pub struct Dialler {
    connector: TlsConnector,
    credentials: Current,
    times: Times,
}

impl Dialler {
    pub fn new(credentials: &Current, operator: SpiffeId, times: &Times) -> Result<Self, rustls::Error> {
        let connector = TlsConnector::from(tls::client(credentials, operator)?);
        Ok(Self { connector, credentials: credentials.clone(), times: times.clone() })
    }

    pub async fn dial(&self, target: Target) -> Result<Open, DialError> {
        let limit = self.times.connect;
        let dialled = timeout(limit, self.connect(&target)).await;
        dialled.map_err(|_| DialError::Time { address: target.address, limit })?
    }

    async fn connect(&self, target: &Target) -> Result<Open, DialError> {
        if self.credentials.borrow().is_withdrawn() {
            return Err(DialError::Withdrawn);
        }
        let (address, (stream, peer)) = (target.address.as_str(), reach(target).await?);
        keep_alive::set(&stream);
        let certificate = self.credentials.borrow().thumbprint().to_string();
        let name = ServerName::try_from(NAME).map_err(|_| DialError::NoAddress)?;
        let stream = self.connector.connect(name, stream).await;
        let stream =
            stream.map_err(|error| DialError::Handshake { address: address.to_owned(), reason: explain(&error) })?;
        let (client, ended) = speak_http(address, stream, &self.times).await?;
        Ok(Open { client, peer, ended, proven: false, round_trip: Duration::ZERO, certificate })
    }
}

async fn speak_http(
    address: &str,
    stream: TlsStream<TcpStream>,
    times: &Times,
) -> Result<(LineClient<Channel>, JoinHandle<()>), DialError> {
    let shaken = http(times).handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|source| DialError::Http { address: address.to_owned(), source })?;
    let ended = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the operator broke");
        }
    });
    let client = LineClient::with_origin(Channel { sender }, Uri::from_static("https://valkey-operator"));
    Ok((client.max_decoding_message_size(LARGEST_MESSAGE), ended))
}

/// The first of a name's addresses that answers, starting with any: replicas share the load.
async fn reach(target: &Target) -> Result<(TcpStream, SocketAddr), DialError> {
    let address = || target.address.clone();
    let resolved = lookup_host(&target.address).await;
    let resolved = resolved.map_err(|source| DialError::Resolve { address: address(), source })?;
    let mut candidates: Vec<SocketAddr> = resolved.collect();
    fastrand::shuffle(&mut candidates);
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    while let Some(candidate) = candidates.pop() {
        let others = target.named || !candidates.is_empty();
        match knock(candidate, others).await {
            Ok(stream) => return Ok((stream, candidate)),
            Err(error) => failure = error,
        }
    }
    Err(DialError::Connect { address: address(), source: failure })
}

async fn knock(candidate: SocketAddr, others: bool) -> io::Result<TcpStream> {
    let connecting = TcpStream::connect(candidate);
    match others {
        true => timeout(ONE_OF_SEVERAL, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        false => connecting.await,
    }
}

fn http(times: &Times) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(131_072)
        .max_send_buf_size(64 * 1024)
        // A hung operator keeps its sockets open; only the ping tells.
        .keep_alive_interval(times.ping)
        .keep_alive_timeout(times.pong)
        .keep_alive_while_idle(true);
    builder
}
