//! Why no certificate could be issued.

use crate::scope::Scope;
use crate::spiffe_id::SpiffeId;
use jiff::Timestamp;

#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    #[error("the authority signs for {scope} only, not for {id}")]
    OutsideScope { id: SpiffeId, scope: Scope },
    #[error("a root signs intermediates, not leaves: make an intermediate first")]
    LeafFromRoot,
    #[error("an intermediate signs leaves, not further authorities: ask the root")]
    NestedIntermediate,
    #[error("the authority expired at {0}: renew it first")]
    AuthorityExpired(Timestamp),
    #[error("the validity is too short or too long to be a span of time: choose another")]
    Validity,
    #[error("the certificate of the authority cannot be read: {0}")]
    ReadCertificate(String),
    #[error("the private key of the authority cannot be read: {0}")]
    ReadKey(&'static str),
    #[error("the private key does not belong to the certificate of the authority")]
    KeyMismatch,
    #[error("the system gave no random bytes")]
    Randomness,
    #[error("the certificate could not be made")]
    Sign(#[from] rcgen::Error),
    #[error("the certificate could not be written as PEM: {0}")]
    Encode(String),
}

impl From<pem_rfc7468::Error> for IssueError {
    fn from(error: pem_rfc7468::Error) -> Self {
        Self::Encode(error.to_string())
    }
}
