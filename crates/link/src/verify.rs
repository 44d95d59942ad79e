//! The rustls verifiers of both ends. They read the bundle that is in force at the moment of the handshake, so that a
//! changed bundle needs no new configuration. All X.509 and SPIFFE rules are `pki`'s.

use crate::{
    credentials::Current,
    verified_chains::{self, VerifiedChains},
};
use jiff::Timestamp;
use pki::SpiffeId;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use std::{sync::Arc, time::Instant};

/// The peer's certificate is valid, and not that of the peer this end talks to.
#[derive(Debug, thiserror::Error)]
#[error("the peer is {found}, expected {expected}")]
pub struct UnexpectedPeer {
    pub expected: SpiffeId,
    pub found: SpiffeId,
}

#[derive(Debug)]
pub struct Verifier {
    pub current: Current,
    /// The one identity accepted; `None` where each call is checked by itself.
    pub expected: Option<SpiffeId>,
    pub algorithms: WebPkiSupportedAlgorithms,
    pub chains: VerifiedChains,
}

impl Verifier {
    fn verify(&self, leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
        let chain: Vec<_> = std::iter::once(leaf).chain(rest).map(|der| CertificateDer::from(der.as_ref())).collect();
        let found = self.identify(&chain, now)?;
        match &self.expected {
            Some(expected) if *expected != found => Err(refused(UnexpectedPeer { expected: expected.clone(), found })),
            _ => Ok(()),
        }
    }

    fn identify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<SpiffeId, Error> {
        let (credentials, key) = (self.current.borrow().clone(), verified_chains::key(chain));
        if let Some(id) = self.chains.find(&key, &credentials, Instant::now()) {
            return Ok(id);
        }
        let now = i64::try_from(now.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        let now = now.ok_or(Error::FailedToGetCurrentTime)?;
        let id = credentials.trust.verify(chain, now, pki::SKEW).map_err(refused)?;
        self.chains.remember(key, &credentials, &id, Instant::now());
        Ok(id)
    }
}

/// What a failed handshake was about, in this end's words where it was this end that refused.
#[cfg(feature = "client")]
pub fn explain(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(CertificateError::Other(OtherError(refusal)))) => refusal.to_string(),
        _ => error.to_string(),
    }
}

fn refused(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

/// What rustls asks of both kinds of verifier in the same words: signatures of TLS 1.3, and no others.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("only TLS 1.3 is spoken here".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            leaf: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, leaf, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(leaf, rest, now).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}

impl ServerCertVerifier for Verifier {
    /// The name that was dialled is not checked: the operator is known by its SPIFFE ID wherever it runs.
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(leaf, rest, now).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}
