//! What one answer of the Workload API means for us: the wanted identity and whom to trust. Pure. Answers are complete, so
//! nothing of an earlier one is kept, except by the caller when an answer is unusable.

use crate::contract::{X509svid, X509svidResponse};
use link::{Credentials, CredentialsError};
use pki::{Bundle, DomainBundles, InvalidBundle, SpiffeId, TrustDomain, concatenated_certificates};
use rustls_pki_types::PrivatePkcs8KeyDer;
use std::collections::HashMap;
use zeroize::Zeroize;

#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("the Workload API sent an answer without its mandatory field {0}")]
    Missing(&'static str),
    #[error("{wanted} is not among the identities the Workload API gives this workload ({offered}): register it")]
    NotOffered { wanted: SpiffeId, offered: String },
    #[error("the certificate chain of {0} cannot be read")]
    ReadChain(SpiffeId, #[source] InvalidBundle),
    #[error("the trust bundle of {0} cannot be read")]
    ReadBundle(String, #[source] InvalidBundle),
    #[error("the identity {0} cannot be used")]
    Use(SpiffeId, #[source] Box<CredentialsError>),
    #[error("the identity {said} has a certificate of {found}")]
    OtherLeaf { said: SpiffeId, found: SpiffeId },
}

impl AnswerError {
    /// Whether the answer is sound and took the identity back; an unsound one says nothing.
    pub fn takes_back(&self) -> bool {
        matches!(self, Self::NotOffered { .. })
    }
}

/// Wipes the private keys, also of the identities that were not wanted.
struct Answer(X509svidResponse);

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.svids.iter_mut().for_each(|svid| svid.x509_svid_key.zeroize());
    }
}

/// The credentials of the wanted identity, and what of the answer was left out because it is broken.
pub fn read(answer: X509svidResponse, wanted: &SpiffeId) -> Result<(Credentials, Vec<AnswerError>), AnswerError> {
    let mut answer = Answer(answer);
    check_complete(&answer.0)?;
    let (mut domains, left_out) = federated(&answer.0.federated_bundles);
    let svid = pick(&mut answer.0.svids, wanted)?;
    let bundle = bundle(&svid.bundle).map_err(|source| AnswerError::ReadBundle(wanted.to_string(), source))?;
    domains.insert(wanted.trust_domain().clone(), bundle);
    Ok((credentials(svid, wanted, domains)?, left_out))
}

fn check_complete(answer: &X509svidResponse) -> Result<(), AnswerError> {
    if answer.svids.is_empty() {
        return Err(AnswerError::Missing("svids"));
    }
    answer.svids.iter().try_for_each(|svid| {
        let fields = [
            ("svids.spiffe_id", svid.spiffe_id.is_empty()),
            ("svids.x509_svid", svid.x509_svid.is_empty()),
            ("svids.x509_svid_key", svid.x509_svid_key.is_empty()),
            ("svids.bundle", svid.bundle.is_empty()),
        ];
        let missing = fields.into_iter().find(|(_, empty)| *empty);
        missing.map_or(Ok(()), |(field, _)| Err(AnswerError::Missing(field)))
    })
}

/// The first of that exact id: hints only tell several apart, and the first is the one to take.
fn pick<'a>(svids: &'a mut [X509svid], wanted: &SpiffeId) -> Result<&'a mut X509svid, AnswerError> {
    let name = wanted.to_string();
    let offered = offered(svids);
    let found = svids.iter_mut().find(|svid| svid.spiffe_id == name);
    found.ok_or_else(|| AnswerError::NotOffered { wanted: wanted.clone(), offered })
}

/// A few of the names, because this ends up in a status.
fn offered(svids: &[X509svid]) -> String {
    const SHOWN: usize = 5;
    let mut names: Vec<_> = svids.iter().take(SHOWN).map(|svid| svid.spiffe_id.clone()).collect();
    if svids.len() > SHOWN {
        names.push(format!("{} more", svids.len() - SHOWN));
    }
    names.join(", ")
}

/// A broken bundle of one domain costs only that domain.
fn federated(bundles: &HashMap<String, Vec<u8>>) -> (DomainBundles, Vec<AnswerError>) {
    let (mut domains, mut left_out) = (DomainBundles::default(), Vec::new());
    for (name, der) in bundles {
        match trust_domain(name).and_then(|domain| Ok((domain, bundle(der)?))) {
            Ok((domain, bundle)) => domains.insert(domain, bundle),
            Err(source) => left_out.push(AnswerError::ReadBundle(name.clone(), source)),
        }
    }
    (domains, left_out)
}

fn trust_domain(name: &str) -> Result<TrustDomain, InvalidBundle> {
    let id: SpiffeId = name.parse().map_err(|error: pki::InvalidSpiffeId| InvalidBundle::Text(error.to_string()))?;
    let domain = id.trust_domain().clone();
    if id.path().is_empty() { Ok(domain) } else { Err(InvalidBundle::Text("its name is not of a trust domain".into())) }
}

fn bundle(der: &[u8]) -> Result<Bundle, InvalidBundle> {
    let roots = concatenated_certificates(der)?;
    if roots.is_empty() { Err(InvalidBundle::Empty) } else { Bundle::from_der(roots) }
}

fn credentials(svid: &mut X509svid, wanted: &SpiffeId, trusted: DomainBundles) -> Result<Credentials, AnswerError> {
    let chain = concatenated_certificates(&svid.x509_svid);
    let chain = chain.map_err(|source| AnswerError::ReadChain(wanted.clone(), source))?;
    let key = PrivatePkcs8KeyDer::from(std::mem::take(&mut svid.x509_svid_key));
    let made = Credentials::from_der(chain, key.into(), trusted.into());
    let made = made.map_err(|source| AnswerError::Use(wanted.clone(), Box::new(source)))?;
    if made.id() == wanted {
        Ok(made)
    } else {
        Err(AnswerError::OtherLeaf { said: wanted.clone(), found: made.id().clone() })
    }
}

#[cfg(all(test, feature = "testing"))]
#[path = "answer_tests.rs"]
mod tests;
