//! What speaks against an authority that the user brought along: one variant for each, with the way out.

use jiff::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    #[error("the Secret has no key {0}: add it")]
    Missing(&'static str),
    #[error("{key} holds no readable certificate ({why}): store the authority's certificate there, as PEM")]
    UnreadableCertificate { key: &'static str, why: String },
    #[error("{key} holds no usable private key: {why}")]
    UnreadableKey { key: &'static str, why: String },
    #[error("the private key in {key} does not belong to the certificate in {certificate}: store the two that do")]
    KeyMismatch { key: &'static str, certificate: &'static str },
    #[error("the certificate is no certificate authority (basicConstraints CA is not true): issue it as one")]
    NotAnAuthority,
    #[error("the certificate's key usage does not hold keyCertSign: issue it with that usage")]
    MayNotSign,
    #[error(
        "the certificate's path length of 0 leaves no room for an intermediate: issue it with a path length of 1 or none"
    )]
    PathTooShort,
    #[error("the certificate expired at {0}: store a current one")]
    Expired(Timestamp),
    #[error("the certificate is not valid before {0}: wait until then, or set the clocks right")]
    NotYetValid(Timestamp),
    /// The time needed is given as a span: a point in time would differ at each check.
    #[error(
        "the certificate ends at {not_after}, but must last for {needed_days} more days at least: store one with more time left"
    )]
    TooShortLife { not_after: Timestamp, needed_days: u64 },
    #[error("the key is too weak ({0}): use ECDSA P-256 or P-384, Ed25519, or RSA with at least 2048 bits")]
    WeakKey(String),
    #[error(
        "the certificate's subject has the attribute {0} more than once, which cannot be signed with: issue it with each attribute once"
    )]
    RepeatedAttribute(String),
    #[error("what it signs is not accepted ({0}): issue it without name constraints and with a plain subject")]
    TrialFailed(String),
}

impl Objection {
    /// The variant's name, for conditions and Events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing(_) => "Missing",
            Self::UnreadableCertificate { .. } => "UnreadableCertificate",
            Self::UnreadableKey { .. } => "UnreadableKey",
            Self::KeyMismatch { .. } => "KeyMismatch",
            Self::NotAnAuthority => "NotAnAuthority",
            Self::MayNotSign => "MayNotSign",
            Self::PathTooShort => "PathTooShort",
            Self::Expired(_) => "Expired",
            Self::NotYetValid(_) => "NotYetValid",
            Self::TooShortLife { .. } => "TooShortLife",
            Self::WeakKey(_) => "WeakKey",
            Self::RepeatedAttribute(_) => "RepeatedAttribute",
            Self::TrialFailed(_) => "TrialFailed",
        }
    }
}
