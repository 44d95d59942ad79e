//! What one end shows and whom it trusts: leaf, key and bundle together, so that they change together.
//! Pure; the holder of a `watch::Sender<Arc<Credentials>>` swaps them and open connections stay as they are.

use futures::future::BoxFuture;
use jiff::Timestamp;
use pki::{Bundle, LeafFacts, SpiffeId, Thumbprint, Trust};
use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use std::sync::Arc;
use tokio::sync::watch;
use zeroize::Zeroize;

/// The credentials now in force; every new handshake reads them.
pub type Current = watch::Receiver<Arc<Credentials>>;

/// Where an end's credentials come from: the files of a mounted Secret, the operator's own authority, a SPIFFE Workload API.
pub trait IdentitySource: Send + Sync {
    /// Waits until there are credentials; from then on they change in place.
    fn current(&self) -> BoxFuture<'_, Current>;

    /// What keeps it from having good ones, for a status. The last good ones stay in force meanwhile.
    fn problem(&self) -> Option<String>;
}

#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("the certificate chain is not PEM: expected `tls.crt` with the leaf first")]
    ReadChain { source: rustls::pki_types::pem::Error },
    #[error("the certificate chain is empty: expected `tls.crt` with the leaf first")]
    EmptyChain,
    #[error("the private key is not PEM: expected `tls.key` in PKCS#8 form")]
    ReadKey { source: rustls::pki_types::pem::Error },
    #[error("the private key cannot be used, or is not the leaf's")]
    UseKey { source: rustls::Error },
    #[error("the leaf certificate cannot be used")]
    InspectLeaf { source: pki::Refusal },
    #[error("the trust bundle cannot be used")]
    ReadBundle { source: pki::InvalidBundle },
}

#[derive(Debug)]
pub struct Credentials {
    /// Nothing once the identity was withdrawn.
    pub(crate) key: Option<Arc<CertifiedKey>>,
    pub(crate) trust: Trust,
    leaf: LeafFacts,
}

impl Credentials {
    /// From the files of a mounted Secret: `tls.crt` (leaf, then intermediates), `tls.key`, `ca.crt`.
    pub fn from_pem(chain: &[u8], key: &[u8], bundle: &[u8]) -> Result<Self, CredentialsError> {
        let bundle = Bundle::from_pem(bundle).map_err(|source| CredentialsError::ReadBundle { source })?;
        Self::with_bundle(chain, key, bundle)
    }

    /// The same, for a bundle of the built-in authority that was read before.
    pub fn with_bundle(chain: &[u8], key: &[u8], bundle: Bundle) -> Result<Self, CredentialsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|source| CredentialsError::ReadChain { source })?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|source| CredentialsError::ReadKey { source })?;
        Self::from_der(chain, key, bundle.into())
    }

    /// From what is no longer text, leaf first. The key is wiped.
    pub fn from_der(
        chain: Vec<CertificateDer<'static>>,
        mut key: PrivateKeyDer<'static>,
        trust: Trust,
    ) -> Result<Self, CredentialsError> {
        let usable = any_supported_type(&key);
        key.zeroize();
        let leaf = chain.first().ok_or(CredentialsError::EmptyChain)?;
        let leaf = pki::inspect_leaf(leaf).map_err(|source| CredentialsError::InspectLeaf { source })?;
        let key = CertifiedKey::new(chain, usable.map_err(|source| CredentialsError::UseKey { source })?);
        key.keys_match().map_err(|source| CredentialsError::UseKey { source })?;
        Ok(Self { key: Some(Arc::new(key)), trust, leaf })
    }

    /// What is left when the source took the identity back: no new handshake succeeds, open connections stay.
    pub fn withdrawn(&self) -> Self {
        Self { key: None, trust: self.trust.clone(), leaf: self.leaf.clone() }
    }

    pub fn is_withdrawn(&self) -> bool {
        self.key.is_none()
    }

    /// Whether swapping these for the others would change nothing.
    pub fn is_same(&self, other: &Self) -> bool {
        let shown = (&self.leaf.thumbprint, self.is_withdrawn()) == (&other.leaf.thumbprint, other.is_withdrawn());
        shown && self.trust == other.trust
    }

    pub fn id(&self) -> &SpiffeId {
        &self.leaf.id
    }

    pub fn expires(&self) -> Timestamp {
        self.leaf.not_after
    }

    pub fn leaf(&self) -> &LeafFacts {
        &self.leaf
    }

    pub fn thumbprint(&self) -> &Thumbprint {
        &self.leaf.thumbprint
    }

    pub fn trusted_roots(&self) -> Vec<Thumbprint> {
        self.trust.thumbprints()
    }
}
