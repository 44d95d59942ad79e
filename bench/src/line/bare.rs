//! The floor: the same number of connections with the same certificates and TLS, and nothing on top. IO.

use crate::{
    certificates::Files,
    child::{Orders, Part, orders},
};
use anyhow::{Context, Result};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::TLS13,
};
use std::sync::Arc;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

type Chain = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, Arc<RootCertStore>);

fn read(files: &Files) -> Result<Chain> {
    let chain = CertificateDer::pem_slice_iter(files.chain.as_bytes()).collect::<Result<_, _>>()?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(files.bundle.as_bytes())?)?;
    Ok((chain, PrivateKeyDer::from_pem_slice(files.key.as_bytes())?, Arc::new(roots)))
}

/// rustls's own verifier, but for the host name, which our leaves do not have.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::{
            CertificateError::{NotValidForName, NotValidForNameContext},
            Error::InvalidCertificate,
        };
        match self.0.verify_server_cert(leaf, rest, name, ocsp, now) {
            Err(InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

pub async fn serve() -> Result<()> {
    let (orders, mut questions) = orders()?;
    let (chain, key, roots) = read(&orders.files)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(&orders.address).await?;
    println!("{}", listener.local_addr()?);
    loop {
        tokio::select! {
            accepted = listener.accept() => drop(tokio::spawn(hold(acceptor.clone(), accepted?.0))),
            question = questions.recv() => if question.is_none() { return Ok(()) },
        }
    }
}

async fn hold(acceptor: TlsAcceptor, stream: TcpStream) {
    if let Ok(mut stream) = acceptor.accept(stream).await {
        // Nothing comes; this returns when the peer is gone.
        let _ = stream.read(&mut [0; 1]).await;
    }
}

/// Memory of a process that holds `count` bare connections, in KiB.
pub async fn floor(count: usize, operator: &Files, sidecar: &Files) -> Result<u64> {
    let orders = Orders { files: operator.clone(), address: "127.0.0.1:0".into(), per_address: false };
    let mut server = Part::start("bare", &orders)?;
    let address = server.hear()?;
    let connector = connector(sidecar)?;
    let mut held: Vec<TlsStream<TcpStream>> = Vec::with_capacity(count);
    for _ in 0..count {
        let stream = TcpStream::connect(&address).await?;
        let name = ServerName::try_from("operator")?;
        held.push(connector.connect(name, stream).await.context("the floor's handshake failed")?);
    }
    server.resident_kib()
}

pub fn connector(sidecar: &Files) -> Result<TlsConnector> {
    let (chain, key, roots) = read(sidecar)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
        .with_client_auth_cert(chain, key)?;
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
