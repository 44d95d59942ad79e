//! Why a peer is not let in: one variant for each reason. Pure. `reason()` is the metric label, the text the log line.

use crate::scope::Scope;
use crate::spiffe_id::{InvalidSpiffeId, SpiffeId};
use crate::trust_domain::TrustDomain;
use jiff::Timestamp;

/// Which certificate of the chain is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum ChainPosition {
    Leaf,
    Issuer,
    Root,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
pub enum Refusal {
    #[error("the peer presented no certificate")]
    NoCertificate,
    #[error("the peer presented {0} certificates, more than a chain of ours can have")]
    ChainTooLong(usize),
    #[error("the {0} certificate cannot be read: {1}")]
    Malformed(ChainPosition, String),
    #[error("the leaf is a certificate authority, which may sign but not speak")]
    CertificateAuthorityAsLeaf,
    #[error("the key of the leaf is not meant for this: {0}")]
    WrongKeyUsage(&'static str),
    #[error("the leaf has no URI name, so it says not who it is")]
    NoUriName,
    #[error("the leaf has {0} URI names where exactly one is allowed")]
    SeveralUriNames(usize),
    #[error("the URI name of the {0} is no SPIFFE id for this place: {1}")]
    InvalidSpiffeId(ChainPosition, InvalidId),
    #[error("the {0} certificate expired at {1}")]
    Expired(ChainPosition, Timestamp),
    #[error("the {0} certificate is not valid before {1}")]
    NotYetValid(ChainPosition, Timestamp),
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
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use strum::VariantNames;

    /// What stands between code quotes in the first cells of the table below the heading.
    fn documented() -> BTreeSet<&'static str> {
        let text = include_str!("../../../docs/identities.md");
        let section = text.split("\n## ").find(|section| section.starts_with("What a refusal means")).unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
        cells.flat_map(|cell| cell.split("`, `")).map(|name| name.trim_matches('`')).collect()
    }

    #[test]
    fn every_reason_is_documented_and_nothing_else_is() {
        let reasons: BTreeSet<_> = Refusal::VARIANTS.iter().copied().collect();
        assert_eq!(documented(), reasons);
    }
}
