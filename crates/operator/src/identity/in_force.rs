//! The root that signs now and the roots that are trusted now, together, as every cluster's identity is made from them.

use certificates::{Signing, Source, Stored};
use jiff::Timestamp;
use pki::{Authority, Bundle, Lifetime, Thumbprint};
use std::collections::BTreeSet;

/// A root with its key, and where it comes from.
#[derive(Clone, Debug)]
pub struct Root {
    pub authority: Authority,
    pub issued_at: Timestamp,
    pub source: Source,
    /// The Secret it came from.
    pub came_from: String,
}

impl Root {
    pub fn stored(&self) -> Stored {
        let lifetime = Lifetime { issued_at: self.issued_at, expires_at: self.authority.not_after() };
        Stored { thumbprint: self.authority.thumbprint(), lifetime }
    }

    pub fn signing(&self) -> Signing {
        Signing { root: self.stored(), source: self.source, came_from: self.came_from.clone() }
    }
}

#[derive(Clone, Debug)]
pub struct InForce {
    pub root: Root,
    pub trusted: Bundle,
}

impl InForce {
    pub fn thumbprints(&self) -> BTreeSet<Thumbprint> {
        self.trusted.thumbprints().into_iter().collect()
    }

    /// Whether certificates made from both are made and checked alike.
    pub fn is_as(&self, other: &Self) -> bool {
        self.root.authority.thumbprint() == other.root.authority.thumbprint()
            && self.thumbprints() == other.thumbprints()
    }
}
