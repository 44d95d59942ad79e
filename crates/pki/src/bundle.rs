//! Roots that are trusted, old and new side by side while one follows the other. Pure; swapped as a whole by those who hold it.
//! For whom they vouch is said by `Trust`.

use crate::certificate::{self, Facts};
use crate::pem;
use crate::thumbprint::Thumbprint;
use jiff::Timestamp;
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
}

/// The same roots in the same order.
impl PartialEq for Bundle {
    fn eq(&self, other: &Self) -> bool {
        self.roots.iter().map(|root| &root.certificate).eq(other.roots.iter().map(|root| &root.certificate))
    }
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
        Self::from_der(certificates)
    }

    /// The same as DER, also for the roots that a SPIFFE Workload API gives out.
    pub fn from_der(roots: Vec<CertificateDer<'static>>) -> Result<Self, InvalidBundle> {
        let mut bundle = Self::default();
        for (index, certificate) in roots.into_iter().enumerate() {
            bundle.add(index, certificate)?;
        }
        Ok(bundle)
    }

    fn add(&mut self, index: usize, certificate: CertificateDer<'static>) -> Result<(), InvalidBundle> {
        let unreadable = |why| InvalidBundle::Certificate(index + 1, why);
        let facts = certificate::read(&certificate).map_err(unreadable)?;
        if !facts.is_authority {
            return Err(InvalidBundle::NotAnAuthority(index + 1));
        }
        let anchor = webpki::anchor_from_trusted_cert(&certificate).map_err(|error| unreadable(error.to_string()))?;
        self.anchors.push(anchor.to_owned());
        self.roots.push(Root { certificate, facts });
        Ok(())
    }

    /// Both sets of roots, without repeating one.
    pub fn merge(mut self, other: Self) -> Self {
        for (root, anchor) in other.roots.into_iter().zip(other.anchors) {
            if !self.roots.iter().any(|known| known.certificate == root.certificate) {
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

    /// Only the root of that thumbprint, or nothing.
    pub fn only(&self, thumbprint: &Thumbprint) -> Self {
        let others = self.thumbprints().into_iter().filter(|other| other != thumbprint);
        others.fold(self.clone(), |left, other| left.without(&other))
    }

    /// Each root with the moment it ends and its certificate as PEM, for a status.
    pub fn listed(&self) -> Result<Vec<(Thumbprint, Timestamp, String)>, InvalidBundle> {
        let entry = |root: &Root| {
            let text =
                pem::certificates([&root.certificate]).map_err(|error| InvalidBundle::Text(error.to_string()))?;
            Ok((Thumbprint::of(&root.certificate), root.facts.not_after, text))
        };
        self.roots.iter().map(entry).collect()
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
