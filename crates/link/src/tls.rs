//! TLS of both ends: version 1.3 only, ring, HTTP/2, certificates on both sides, no resumption (a resumed session would
//! skip the check against the bundle). Made once; the credentials behind it change.

use crate::{credentials::Current, verified_chains::VerifiedChains, verify::Verifier};
use pki::SpiffeId;
use rustls::{
    Error, SignatureScheme,
    client::ResolvesClientCert,
    crypto::{CryptoProvider, ring},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::TLS13,
};
use std::sync::Arc;

const HTTP2: &[u8] = b"h2";

#[derive(Debug)]
struct Shown(Current);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().key.clone()
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().key.clone()
    }

    fn has_certs(&self) -> bool {
        !self.0.borrow().is_withdrawn()
    }
}

fn verifier(current: &Current, expected: Option<SpiffeId>, provider: &CryptoProvider) -> Arc<Verifier> {
    let algorithms = provider.signature_verification_algorithms;
    Arc::new(Verifier { current: current.clone(), expected, algorithms, chains: VerifiedChains::default() })
}

#[cfg(feature = "server")]
pub fn server(current: &Current) -> Result<Arc<rustls::ServerConfig>, Error> {
    use rustls::{ServerConfig, server::NoServerSessionStorage};
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(current, None, &provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(Shown(current.clone())));
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

#[cfg(feature = "client")]
pub fn client(current: &Current, operator: SpiffeId) -> Result<Arc<rustls::ClientConfig>, Error> {
    use rustls::{ClientConfig, client::Resumption};
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(current, Some(operator), &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(Shown(current.clone())));
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}
