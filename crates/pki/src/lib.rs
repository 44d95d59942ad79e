//! Who is who between operator and sidecars. Pure: the clock and the source of randomness are passed in, nothing is read or written.
//! Verifying a peer is always here; issuing certificates is the feature `issue` (default), which the sidecar does without.

mod bundle;
mod certificate;
mod concatenated;
mod handover;
pub mod identity;
mod label;
mod pem;
mod refusal;
mod rotation;
mod scope;
mod spiffe_id;
mod thumbprint;
mod trust;
mod trust_domain;
mod verify;

#[cfg(feature = "issue")]
mod authority;
#[cfg(feature = "issue")]
mod issue_error;
#[cfg(feature = "issue")]
mod objection;
#[cfg(feature = "issue")]
mod own_authority;
#[cfg(feature = "issue")]
mod private_key;
#[cfg(feature = "issue")]
mod profile;
#[cfg(feature = "issue")]
mod randomness;
#[cfg(feature = "issue")]
mod stored;

pub use bundle::{Bundle, InvalidBundle};
pub use certificate::LeafFacts;
pub use concatenated::concatenated_certificates;
pub use handover::{Handover, Party, Step};
pub use label::InvalidLabel;
pub use refusal::{ChainPosition, Refusal};
pub use rotation::{InvalidPercent, Lifetime, Percent, Rotation, intermediate_rotation, leaf_rotation, root_rotation};
pub use scope::Scope;
pub use spiffe_id::{InvalidSpiffeId, SpiffeId};
pub use thumbprint::Thumbprint;
pub use trust::{DomainBundles, Trust};
pub use trust_domain::{InvalidTrustDomain, TrustDomain};
pub use verify::{SKEW, inspect_leaf, verify_peer};

#[cfg(feature = "issue")]
pub use {
    authority::{Authority, Issued},
    issue_error::IssueError,
    objection::Objection,
    own_authority::own_authority,
    private_key::PrivateKey,
    randomness::{Randomness, SystemRandomness},
    stored::{Spoilt, StoredLeaf, stored_leaf},
};
