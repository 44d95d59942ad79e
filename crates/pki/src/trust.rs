//! Whom an end believes, and which rule keeps namespaces apart: the type says which of the two modes it is. Pure.

use crate::bundle::Bundle;
use crate::refusal::Refusal;
use crate::spiffe_id::SpiffeId;
use crate::thumbprint::Thumbprint;
use crate::trust_domain::TrustDomain;
use crate::verify::{verify_in_domain, verify_peer};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use std::{collections::BTreeMap, time::Duration};

#[derive(Clone, Debug, PartialEq)]
pub enum Trust {
    /// The built-in authority: one root for all, and every intermediate speaks only for the scope it was made for.
    BuiltIn(Bundle),
    /// Bundles of SPIFFE trust domains: each vouches for all ids in its own domain and for none outside.
    Domains(DomainBundles),
}

/// The roots of each trust domain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainBundles(BTreeMap<TrustDomain, Bundle>);

impl Trust {
    /// The identity of the peer that presented this chain, leaf first; whether it is the wanted one is for the caller.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: Timestamp, skew: Duration) -> Result<SpiffeId, Refusal> {
        match self {
            Self::BuiltIn(bundle) => verify_peer(chain, bundle, now, skew),
            Self::Domains(domains) => verify_in_domain(chain, domains, now, skew),
        }
    }

    /// Every root that is believed, whatever for.
    pub fn thumbprints(&self) -> Vec<Thumbprint> {
        match self {
            Self::BuiltIn(bundle) => bundle.thumbprints(),
            Self::Domains(domains) => domains.0.values().flat_map(Bundle::thumbprints).collect(),
        }
    }
}

impl From<Bundle> for Trust {
    fn from(bundle: Bundle) -> Self {
        Self::BuiltIn(bundle)
    }
}

impl From<DomainBundles> for Trust {
    fn from(domains: DomainBundles) -> Self {
        Self::Domains(domains)
    }
}

impl DomainBundles {
    /// Sets the roots of a domain; those it had before are gone.
    pub fn insert(&mut self, domain: TrustDomain, bundle: Bundle) {
        self.0.insert(domain, bundle);
    }

    pub fn domains(&self) -> impl Iterator<Item = &TrustDomain> {
        self.0.keys()
    }

    pub(crate) fn of(&self, domain: &TrustDomain) -> Option<&Bundle> {
        self.0.get(domain)
    }
}
