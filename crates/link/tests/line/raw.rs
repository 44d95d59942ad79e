//! A client of the tests' own, which does what the real one never would.

use crate::{certificates::Identity, operator::DEADLINE, sidecar::sender};
use anyhow::{Context, Result};
use http::Request as HttpRequest;
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    client::conn::http2,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use link::contract::{HeartbeatReply, HeartbeatRequest, Sender, line_client::LineClient};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
    version::TLS13,
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{Code, Request, Response, Status, body::Body};
use tower_service::Service;

/// Trusts anybody: these tests are about what the server does.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

pub async fn tls(address: SocketAddr, identity: Option<Identity>) -> Result<TlsStream<TcpStream>> {
    tls_from(Ipv4Addr::LOCALHOST.into(), address, identity).await
}

async fn tls_from(from: IpAddr, address: SocketAddr, identity: Option<Identity>) -> Result<TlsStream<TcpStream>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting));
    let mut config = match identity {
        Some(identity) => builder.with_client_auth_cert(identity.chain, identity.key)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(address).await?;
    Ok(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("anybody")?, stream).await?)
}

/// The generated client over one hyper connection.
#[derive(Clone)]
pub struct Channel(http2::SendRequest<Body>);

impl Service<HttpRequest<Body>> for Channel {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

pub async fn channel(address: SocketAddr, identity: Option<Identity>) -> Result<Channel> {
    over(tls(address, identity).await?).await
}

async fn over(stream: TlsStream<TcpStream>) -> Result<Channel> {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(Channel(sender))
}

pub async fn client(address: SocketAddr, identity: Option<Identity>) -> Result<LineClient<Channel>> {
    Ok(LineClient::with_origin(channel(address, identity).await?, "https://operator".parse()?))
}

/// The same from another address than all the others.
pub async fn client_from(from: IpAddr, address: SocketAddr, identity: Identity) -> Result<LineClient<Channel>> {
    let channel = over(tls_from(from, address, Some(identity)).await?).await?;
    Ok(LineClient::with_origin(channel, "https://operator".parse()?))
}

/// A heartbeat with these words and this token.
pub fn beat(sender: Sender, token: Option<&str>) -> Result<Request<HeartbeatRequest>> {
    let mut request = Request::new(HeartbeatRequest { sender: Some(sender), ..HeartbeatRequest::default() });
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse()?);
    }
    Ok(request)
}

/// Connects as `identity` and says what the first pod of the tested cluster would say.
pub async fn attempt(address: SocketAddr, identity: Option<Identity>) -> Result<Response<HeartbeatReply>> {
    use crate::certificates::{CLUSTER, NAMESPACE};
    let attempt = async {
        let mut client = client(address, identity).await?;
        let token = format!("{NAMESPACE}/{CLUSTER}/orders-0");
        Ok::<_, anyhow::Error>(client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), Some(&token))?).await?)
    };
    timeout(DEADLINE, attempt).await.context("neither an answer nor a refusal came")?
}

pub fn code(result: &Result<Response<HeartbeatReply>, Status>) -> Option<tonic::Code> {
    result.as_ref().err().map(Status::code)
}

/// A call that says it has a MiB to say, and hands it over piece by piece for as long as it is taken.
pub struct Large {
    answer: futures::future::BoxFuture<'static, Result<http::Response<Incoming>, hyper::Error>>,
    taken: Arc<AtomicUsize>,
    _channel: Channel,
}

const PIECE: usize = 1024;
const LARGE: u32 = 1024 * 1024;

impl Large {
    /// How many bytes were handed over.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Waits for this answer; `Ok` is one in the body.
    pub async fn refused(&mut self, code: Code) -> Result<()> {
        let response = timeout(DEADLINE, &mut self.answer).await.context("no answer came")??;
        let said = Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
        anyhow::ensure!(said == code, "{said:?} instead of {code:?}");
        Ok(())
    }
}

/// Begins such a call once the operator's limits are known here.
pub async fn start(address: SocketAddr, identity: Identity, method: &str, token: &str) -> Result<Large> {
    let mut channel = channel(address, Some(identity)).await?;
    let first = request("Nothing", None, Body::empty())?;
    let _refused = channel.call(first).await?.into_body().collect().await?;
    let taken = Arc::new(AtomicUsize::new(0));
    let head: Vec<u8> = [0].into_iter().chain(LARGE.to_be_bytes()).collect();
    let pieces = (0..LARGE as usize / PIECE).map(|_| vec![b'x'; PIECE]);
    let counted = taken.clone();
    let pieces = futures::stream::iter(std::iter::once(head).chain(pieces).map(move |piece| {
        counted.fetch_add(piece.len(), Ordering::Relaxed);
        Ok::<_, Status>(Frame::data(Bytes::from(piece)))
    }));
    let answer = channel.call(request(method, Some(token), Body::new(StreamBody::new(pieces)))?);
    Ok(Large { answer, taken, _channel: channel })
}

fn request(method: &str, token: Option<&str>, body: Body) -> Result<HttpRequest<Body>> {
    let request = HttpRequest::post(format!("https://operator/valkey.operator.v1.Line/{method}"));
    let mut request = request.header("content-type", "application/grpc").header("te", "trailers");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    Ok(request.body(body)?)
}
