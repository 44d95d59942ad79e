//! What was found in a Secret that this project wrote earlier: still whole, or why not. Pure. The operator asks at each reconciliation,
//! because anyone with the right to write Secrets may have damaged one.

use crate::authority::Authority;
use crate::bundle::Bundle;
use crate::certificate;
use crate::issue_error::IssueError;
use crate::private_key::PrivateKey;
use crate::randomness::Randomness;
use crate::refusal::Refusal;
use crate::spiffe_id::SpiffeId;
use crate::thumbprint::Thumbprint;
use crate::verify::{SKEW, inspect_leaf, verify_peer};
use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::time::Duration;

/// A whole leaf with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLeaf {
    pub thumbprint: Thumbprint,
    /// The intermediate that signed it.
    pub issuer: Thumbprint,
    /// The trusted root it leads to.
    pub root: Thumbprint,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// Why what was stored is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Spoilt {
    #[error("the certificate is no PEM text")]
    Text,
    #[error("there is no intermediate behind the leaf")]
    NoIssuer,
    #[error("the private key cannot be read")]
    Key,
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    #[error("{0}")]
    Certificate(#[from] Refusal),
    #[error("it is a certificate of {0}")]
    OtherIdentity(SpiffeId),
}

const TRIAL: Duration = Duration::from_secs(60);

/// The leaf in these texts. One that has only expired is whole: its expiry is reported.
pub fn stored_leaf(
    chain: &[u8],
    key: &[u8],
    id: &SpiffeId,
    trusted: &Bundle,
    now: Timestamp,
) -> Result<StoredLeaf, Spoilt> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(|_| Spoilt::Text)?;
    let leaf = chain.first().ok_or(Spoilt::Text)?;
    let issuer = chain.get(1).map(Thumbprint::of).ok_or(Spoilt::NoIssuer)?;
    let facts = inspect_leaf(leaf)?;
    check_key(leaf, key)?;
    let moment = now.min(facts.not_after).max(facts.not_before);
    let found = verify_peer(&chain, trusted, moment, SKEW)?;
    if found != *id {
        return Err(Spoilt::OtherIdentity(found));
    }
    let root = root_of(&chain, trusted, moment).ok_or(Refusal::UnknownIssuer)?;
    let (not_before, not_after) = (facts.not_before, facts.not_after);
    Ok(StoredLeaf { thumbprint: facts.thumbprint, issuer, root, not_before, not_after })
}

fn check_key(leaf: &CertificateDer<'_>, key: &[u8]) -> Result<(), Spoilt> {
    let own = PrivateKey::from_pem(key).and_then(|key| key.public_der()).map_err(|_| Spoilt::Key)?;
    let stated = certificate::parse(leaf).map(|parsed| parsed.public_key().raw.to_vec()).map_err(|_| Spoilt::Text)?;
    if stated == own { Ok(()) } else { Err(Spoilt::KeyMismatch) }
}

/// The one of these roots that a chain leads to.
fn root_of(chain: &[CertificateDer<'_>], roots: &Bundle, now: Timestamp) -> Option<Thumbprint> {
    let leads_to = |root: &Thumbprint| verify_peer(chain, &roots.only(root), now, SKEW).is_ok();
    roots.thumbprints().into_iter().find(leads_to)
}

impl Authority {
    /// The one of these roots below which this intermediate is: found by verifying a leaf that it signs.
    pub fn root_among(
        &self,
        roots: &Bundle,
        now: Timestamp,
        randomness: &dyn Randomness,
    ) -> Result<Option<Thumbprint>, IssueError> {
        let id = self.scope().ok_or(IssueError::LeafFromRoot)?.identity();
        let trial = self.leaf(&id, TRIAL, now, randomness)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(trial.chain_pem.as_bytes()).collect();
        let chain = chain.map_err(|error| IssueError::Encode(error.to_string()))?;
        Ok(root_of(&chain, roots, now))
    }
}
