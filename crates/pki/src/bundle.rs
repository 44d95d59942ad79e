//! The roots that are trusted, old and new side by side while one follows the other. Pure; swapped as a whole by those who hold it.

use crate::certificate::{self, Facts};
use crate::pem;
use crate::thumbprint::Thumbprint;
use crate::trust_domain::TrustDomain;
use rustls_pki_types::{CertificateDer, TrustAnchor, pem::PemObject};

#[derive(Clone, Debug, Default)]
pub struct Bundle {
    roots: Vec<Root>,
    /// Beside the roots and in their order, because the path builder wants them in one piece.
    anchors: Vec<TrustAnchor<'static>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Root {
    certificate: CertificateDer<'static>,
    pub facts: Facts,
    pub reach: Reach,
}

/// What a root may vouch for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The built-in authority: any namespace, as far as the intermediate's scope goes.
    Scoped,
    /// A root that a SPIFFE Workload API gave out for this trust domain.
    TrustDomain(TrustDomain),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBundle {
    #[error("the trust bundle is no PEM text: {0}")]
    Text(String),
    #[error("the trust bundle holds no certificate: put at least one root into it")]
    Empty,
    #[error("certificate {0} of the trust bundle cannot be read: {1}")]
    Certificate(usize, String),
    #[error("certificate {0} of the trust bundle is no certificate authority: put only roots into it")]
    NotAnAuthority(usize),
}

impl Bundle {
    /// Roots of the built-in authority, or of the user's own, from the text of `ca.crt`.
    pub fn from_pem(text: &[u8]) -> Result<Self, InvalidBundle> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        let certificates = certificates.map_err(|error| InvalidBundle::Text(error.to_string()))?;
        if certificates.is_empty() {
            return Err(InvalidBundle::Empty);
        }
        Self::of(certificates, &Reach::Scoped)
    }

    /// Roots of the built-in authority as DER.
    pub fn from_der(roots: Vec<CertificateDer<'static>>) -> Result<Self, InvalidBundle> {
        Self::of(roots, &Reach::Scoped)
    }

    /// Roots of one trust domain, as a SPIFFE Workload API gives them. They vouch for nobody outside it.
    pub fn of_trust_domain(
        trust_domain: &TrustDomain,
        roots: Vec<CertificateDer<'static>>,
    ) -> Result<Self, InvalidBundle> {
        Self::of(roots, &Reach::TrustDomain(trust_domain.clone()))
    }

    fn of(certificates: Vec<CertificateDer<'static>>, reach: &Reach) -> Result<Self, InvalidBundle> {
        let mut bundle = Self::default();
        for (index, certificate) in certificates.into_iter().enumerate() {
            bundle.add(index, certificate, reach)?;
        }
        Ok(bundle)
    }

    fn add(&mut self, index: usize, certificate: CertificateDer<'static>, reach: &Reach) -> Result<(), InvalidBundle> {
        let unreadable = |why| InvalidBundle::Certificate(index + 1, why);
        let facts = certificate::read(&certificate).map_err(unreadable)?;
        if !facts.is_authority {
            return Err(InvalidBundle::NotAnAuthority(index + 1));
        }
        let anchor = webpki::anchor_from_trusted_cert(&certificate).map_err(|error| unreadable(error.to_string()))?;
        self.anchors.push(anchor.to_owned());
        self.roots.push(Root { certificate, facts, reach: reach.clone() });
        Ok(())
    }

    /// Both sets of roots, without repeating one.
    pub fn merge(mut self, other: Self) -> Self {
        for (root, anchor) in other.roots.into_iter().zip(other.anchors) {
            if !self.roots.iter().any(|known| known.certificate == root.certificate && known.reach == root.reach) {
                self.roots.push(root);
                self.anchors.push(anchor);
            }
        }
        self
    }

    /// Without the root of that thumbprint.
    pub fn without(&self, thumbprint: &Thumbprint) -> Self {
        let keep = |root: &Root| Thumbprint::of(&root.certificate) != *thumbprint;
        let (roots, anchors) = self
            .roots
            .iter()
            .zip(&self.anchors)
            .filter(|(root, _)| keep(root))
            .map(|(r, a)| (r.clone(), a.clone()))
            .unzip();
        Self { roots, anchors }
    }

    pub fn thumbprints(&self) -> Vec<Thumbprint> {
        self.roots.iter().map(|root| Thumbprint::of(&root.certificate)).collect()
    }

    /// The text for `ca.crt`.
    pub fn to_pem(&self) -> Result<String, InvalidBundle> {
        let certificates = self.roots.iter().map(|root| &root.certificate);
        pem::certificates(certificates).map_err(|error| InvalidBundle::Text(error.to_string()))
    }

    pub(crate) fn anchors(&self) -> &[TrustAnchor<'static>] {
        &self.anchors
    }

    /// The roots that share this name and key: usually one; two after a root was renewed with its key.
    pub(crate) fn roots_of<'a>(&'a self, anchor: &'a TrustAnchor<'_>) -> impl Iterator<Item = &'a Root> {
        let pairs = self.roots.iter().zip(&self.anchors);
        pairs.filter(move |(_, known)| *known == anchor).map(|(root, _)| root)
    }
}
