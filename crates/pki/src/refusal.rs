//! Why a peer is not let in: one variant for each reason. Pure. `reason()` is the metric label, the text the log line.

use crate::scope::Scope;
use crate::spiffe_id::{InvalidSpiffeId, SpiffeId};
use crate::trust_domain::TrustDomain;
use jiff::Timestamp;
use std::fmt;

/// Which certificate of the chain is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Leaf,
    Issuer,
    Root,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the peer presented no certificate")]
    NoCertificate,
    #[error("the peer presented {0} certificates, more than a chain of ours can have")]
    ChainTooLong(usize),
    #[error("the {0} certificate cannot be read: {1}")]
    Malformed(Place, String),
    #[error("the leaf is a certificate authority, which may sign but not speak")]
    CertificateAuthorityAsLeaf,
    #[error("the key of the leaf is not meant for this: {0}")]
    WrongKeyUsage(&'static str),
    #[error("the leaf has no URI name, so it says not who it is")]
    NoUriName,
    #[error("the leaf has {0} URI names where exactly one is allowed")]
    SeveralUriNames(usize),
    #[error("the URI name of the {0} is no SPIFFE id for this place: {1}")]
    InvalidSpiffeId(Place, InvalidId),
    #[error("the {0} certificate expired at {1}")]
    Expired(Place, Timestamp),
    #[error("the {0} certificate is not valid before {1}")]
    NotYetValid(Place, Timestamp),
    #[error("the certificate leads to no root that is trusted here")]
    UnknownIssuer,
    #[error("no bundle of the trust domain {0} is known here: federate with it")]
    UnknownTrustDomain(TrustDomain),
    #[error("a signature of the chain does not fit")]
    BadSignature,
    #[error("a certificate of the chain signed what it may not: {0}")]
    IssuerMayNotSign(&'static str),
    #[error("the leaf claims {claimed}, but its issuer speaks for {issuer}")]
    OtherTrustDomain { claimed: SpiffeId, issuer: String },
    #[error("the leaf claims {claimed}, but its issuer speaks for {issuer}")]
    OtherWorkload { claimed: SpiffeId, issuer: Scope },
}

/// What is wrong with a URI name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    #[error(transparent)]
    Text(#[from] InvalidSpiffeId),
    #[error("a leaf's id has a path")]
    LeafWithoutPath,
    #[error("a signing certificate's id has no path, and there is at most one")]
    SignerWithPath,
}

impl Refusal {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoCertificate => "NoCertificate",
            Self::ChainTooLong(_) => "ChainTooLong",
            Self::Malformed(..) => "Malformed",
            Self::CertificateAuthorityAsLeaf => "CertificateAuthorityAsLeaf",
            Self::WrongKeyUsage(_) => "WrongKeyUsage",
            Self::NoUriName => "NoUriName",
            Self::SeveralUriNames(_) => "SeveralUriNames",
            Self::InvalidSpiffeId(..) => "InvalidSpiffeId",
            Self::Expired(..) => "Expired",
            Self::NotYetValid(..) => "NotYetValid",
            Self::UnknownIssuer => "UnknownIssuer",
            Self::UnknownTrustDomain(_) => "UnknownTrustDomain",
            Self::BadSignature => "BadSignature",
            Self::IssuerMayNotSign(_) => "IssuerMayNotSign",
            Self::OtherTrustDomain { .. } => "OtherTrustDomain",
            Self::OtherWorkload { .. } => "OtherWorkload",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaf => "leaf",
            Self::Issuer => "issuer",
            Self::Root => "root",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// What stands between code quotes in the first cells of the table below the heading.
    fn documented() -> BTreeSet<&'static str> {
        let text = include_str!("../../../docs/identities.md");
        let section = text.split("\n## ").find(|section| section.starts_with("What a refusal means")).unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
        cells.flat_map(|cell| cell.split("`, `")).map(|name| name.trim_matches('`')).collect()
    }

    #[test]
    fn every_reason_is_documented_and_nothing_else_is() {
        let arms = include_str!("refusal.rs")
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \""));
        let reasons: BTreeSet<_> = arms
            .filter_map(|(_, text)| text.strip_suffix("\","))
            .filter(|text| text.starts_with(char::is_uppercase))
            .collect();
        assert_eq!(reasons.len(), 16);
        assert_eq!(documented(), reasons);
    }
}
