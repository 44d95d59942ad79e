//! A certificate with its key that signs others: the root, or an intermediate. Pure; the operator keeps it in Secrets.

use crate::bundle::{Bundle, InvalidBundle};
use crate::certificate::{self, Facts};
use crate::issue_error::IssueError;
use crate::pem;
use crate::private_key::PrivateKey;
use crate::profile::{self, Frame};
use crate::randomness::Randomness;
use crate::rotation::Lifetime;
use crate::scope::Scope;
use crate::spiffe_id::SpiffeId;
use crate::thumbprint::Thumbprint;
use crate::trust_domain::TrustDomain;
use crate::verify::SKEW;
use jiff::Timestamp;
use rcgen::{CertificateParams, Issuer};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::time::Duration;
use zeroize::Zeroizing;

/// A signing certificate and its private key.
#[derive(Clone, Debug)]
pub struct Authority {
    certificate: CertificateDer<'static>,
    key: PrivateKey,
    facts: Facts,
}

/// A leaf as it goes into a Secret.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The leaf, then its intermediate. The root is not in it: who verifies has it.
    pub chain_pem: String,
    pub key_pem: Zeroizing<String>,
    pub thumbprint: Thumbprint,
    pub issued_at: Timestamp,
    /// Some minutes before it was issued, for peers whose clocks are slow.
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Issued {
    pub fn lifetime(&self) -> Lifetime {
        Lifetime { issued_at: self.issued_at, expires_at: self.not_after }
    }
}

impl Authority {
    /// A new root. The trust domain is that of the operator's namespace.
    pub fn root(
        trust_domain: &TrustDomain,
        validity: Duration,
        now: Timestamp,
        randomness: &dyn Randomness,
    ) -> Result<Self, IssueError> {
        let frame = frame(None, validity, now, randomness)?;
        let key = randomness.key()?;
        let params = profile::root(trust_domain, &frame)?;
        let certificate = key.with_pair(|pair| Ok(params.self_signed(pair)?.der().clone()))?;
        Self::new(certificate, key)
    }

    /// An intermediate below this root, for one cluster or for the operator. It does not outlive the root.
    pub fn intermediate(
        &self,
        scope: &Scope,
        validity: Duration,
        now: Timestamp,
        randomness: &dyn Randomness,
    ) -> Result<Self, IssueError> {
        if self.scope().is_some() {
            return Err(IssueError::NestedIntermediate);
        }
        let frame = frame(Some(&self.facts), validity, now, randomness)?;
        let key = randomness.key()?;
        let certificate = self.sign(&profile::intermediate(scope, &frame)?, &key)?;
        Self::new(certificate, key)
    }

    /// A leaf with a key of its own. It does not outlive this intermediate.
    pub fn leaf(
        &self,
        id: &SpiffeId,
        validity: Duration,
        now: Timestamp,
        randomness: &dyn Randomness,
    ) -> Result<Issued, IssueError> {
        let scope = self.scope().ok_or(IssueError::LeafFromRoot)?;
        if scope.identity() != *id {
            return Err(IssueError::OutsideScope { id: id.clone(), scope: scope.clone() });
        }
        let frame = frame(Some(&self.facts), validity, now, randomness)?;
        let key = randomness.key()?;
        let certificate = self.sign(&profile::leaf(id, &frame)?, &key)?;
        self.issued(&certificate, &key, &frame, now)
    }

    fn issued(
        &self,
        leaf: &CertificateDer<'static>,
        key: &PrivateKey,
        frame: &Frame,
        now: Timestamp,
    ) -> Result<Issued, IssueError> {
        Ok(Issued {
            chain_pem: pem::certificates([leaf, &self.certificate])?,
            key_pem: key.to_pem()?,
            thumbprint: Thumbprint::of(leaf),
            issued_at: whole_second(now),
            not_before: frame.not_before,
            not_after: frame.not_after,
        })
    }

    /// An authority that was stored earlier. Its key must belong to it.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, IssueError> {
        let unreadable = |error: rustls_pki_types::pem::Error| IssueError::ReadCertificate(error.to_string());
        let certificate = CertificateDer::from_pem_slice(certificate).map_err(unreadable)?;
        let authority = Self::new(certificate, PrivateKey::from_pem(key)?)?;
        if authority.key_fits()? { Ok(authority) } else { Err(IssueError::KeyMismatch) }
    }

    pub(crate) fn new(certificate: CertificateDer<'static>, key: PrivateKey) -> Result<Self, IssueError> {
        let facts = certificate::read(&certificate).map_err(IssueError::ReadCertificate)?;
        Ok(Self { certificate, key, facts })
    }

    fn key_fits(&self) -> Result<bool, IssueError> {
        let certificate = certificate::parse(&self.certificate).map_err(IssueError::ReadCertificate)?;
        Ok(certificate.public_key().raw == self.key.public_der()?)
    }

    fn sign(&self, params: &CertificateParams, subject: &PrivateKey) -> Result<CertificateDer<'static>, IssueError> {
        self.key.with_pair(|own| {
            let issuer = Issuer::from_ca_cert_der(&self.certificate, own)?;
            subject.with_pair(|pair| Ok(params.signed_by(pair, &issuer)?.der().clone()))
        })
    }

    /// For whom it signs; a root has no scope.
    pub fn scope(&self) -> Option<&Scope> {
        self.facts.scope.as_ref()
    }

    /// This authority as the only trusted root.
    pub fn bundle(&self) -> Result<Bundle, InvalidBundle> {
        Bundle::from_der(vec![self.certificate.clone()])
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn certificate_pem(&self) -> Result<String, IssueError> {
        Ok(pem::certificates([&self.certificate])?)
    }

    pub fn key_pem(&self) -> Result<Zeroizing<String>, IssueError> {
        self.key.to_pem()
    }

    pub fn thumbprint(&self) -> Thumbprint {
        Thumbprint::of(&self.certificate)
    }

    pub fn not_before(&self) -> Timestamp {
        self.facts.not_before
    }

    pub fn not_after(&self) -> Timestamp {
        self.facts.not_after
    }
}

/// Certificates count in whole seconds.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Begins a little earlier than now, so that a peer with a slow clock believes it, and ends no later than its issuer.
fn frame(
    issuer: Option<&Facts>,
    validity: Duration,
    now: Timestamp,
    randomness: &dyn Randomness,
) -> Result<Frame, IssueError> {
    let now = whole_second(now);
    let (begin, end) = issuer.map_or((Timestamp::MIN, Timestamp::MAX), |facts| (facts.not_before, facts.not_after));
    if end <= now {
        return Err(IssueError::AuthorityExpired(end));
    }
    let not_before = now.checked_sub(SKEW).map_err(|_| IssueError::Validity)?.max(begin);
    let not_after = now.checked_add(validity).map_err(|_| IssueError::Validity)?.min(end);
    if not_after <= now {
        return Err(IssueError::Validity);
    }
    Ok(Frame { not_before, not_after, serial: randomness.serial()? })
}
