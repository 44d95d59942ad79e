//! A client of the tests' own, which does what the real one never would.

use crate::{certificates::Identity, operator::DEADLINE, sidecar::sender};
use anyhow::{Context, Result};
use http::Request as HttpRequest;
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use link::contract::{HeartbeatReply, HeartbeatRequest, Sender, line_client::LineClient};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
    version::TLS13,
};
use std::{net::SocketAddr, sync::Arc};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{Request, Response, Status, body::Body};

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
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting));
    let mut config = match identity {
        Some(identity) => builder.with_client_auth_cert(identity.chain, identity.key)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await?;
    Ok(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("anybody")?, stream).await?)
}

/// The generated client over one hyper connection.
#[derive(Clone)]
pub struct Channel(http2::SendRequest<Body>);

impl tower_service::Service<HttpRequest<Body>> for Channel {
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
    let stream = tls(address, identity).await?;
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(Channel(sender))
}

pub async fn client(address: SocketAddr, identity: Option<Identity>) -> Result<LineClient<Channel>> {
    Ok(LineClient::with_origin(channel(address, identity).await?, "https://operator".parse()?))
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
