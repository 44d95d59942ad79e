//! What one end shows and whom it trusts: leaf, key and bundle together, so that they change together.
//! Pure; the holder of a `watch::Sender<Arc<Credentials>>` swaps them and open connections stay as they are.

use jiff::Timestamp;
use pki::{Bundle, SpiffeId, Thumbprint};
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
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) bundle: Bundle,
    leaf: pki::LeafFacts,
}

impl Credentials {
    /// From the files of a mounted Secret: `tls.crt` (leaf, then intermediates), `tls.key`, `ca.crt`.
    pub fn from_pem(chain: &[u8], key: &[u8], bundle: &[u8]) -> Result<Self, CredentialsError> {
        let bundle = Bundle::from_pem(bundle).map_err(|source| CredentialsError::ReadBundle { source })?;
        Self::with_bundle(chain, key, bundle)
    }

    /// The same, for a bundle that came from elsewhere (a SPIFFE Workload API).
    pub fn with_bundle(chain: &[u8], key: &[u8], bundle: Bundle) -> Result<Self, CredentialsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|source| CredentialsError::ReadChain { source })?;
        let leaf = chain.first().ok_or(CredentialsError::EmptyChain)?;
        let leaf = pki::inspect_leaf(leaf).map_err(|source| CredentialsError::InspectLeaf { source })?;
        let key = Arc::new(certified_key(chain, key)?);
        Ok(Self { key, bundle, leaf })
    }

    pub fn id(&self) -> &SpiffeId {
        &self.leaf.id
    }

    pub fn expires(&self) -> Timestamp {
        self.leaf.not_after
    }

    pub fn thumbprint(&self) -> &Thumbprint {
        &self.leaf.thumbprint
    }
}

fn certified_key(chain: Vec<CertificateDer<'static>>, pem: &[u8]) -> Result<CertifiedKey, CredentialsError> {
    let mut der = PrivateKeyDer::from_pem_slice(pem).map_err(|source| CredentialsError::ReadKey { source })?;
    let key = any_supported_type(&der);
    der.zeroize();
    let key = CertifiedKey::new(chain, key.map_err(|source| CredentialsError::UseKey { source })?);
    key.keys_match().map_err(|source| CredentialsError::UseKey { source })?;
    Ok(key)
}
