//! An authority that the user brought along in a Secret: taken only if it can do the work, else refused with every reason at once. Pure.

use crate::authority::Authority;
use crate::certificate::{self, Facts};
use crate::objection::Objection;
use crate::private_key::PrivateKey;
use crate::randomness::Randomness;
use crate::scope::Scope;
use crate::verify::{SKEW, verify_peer};
use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

/// `tls.crt` and `tls.key` are what cert-manager and `kubectl create secret tls` write; `ca.crt` and `ca.key` what people name them.
const CERTIFICATE_KEYS: [&str; 2] = ["tls.crt", "ca.crt"];
const PRIVATE_KEYS: [&str; 2] = ["tls.key", "ca.key"];
const WEAKEST_RSA: usize = 2048;
const WEAKEST_CURVE: usize = 256;

/// The authority in this Secret's data, which must last for `needed` from now on; or what speaks against it.
pub fn own_authority(
    data: &BTreeMap<String, Vec<u8>>,
    needed: Duration,
    now: Timestamp,
    randomness: &dyn Randomness,
) -> Result<Authority, Vec<Objection>> {
    let certificate = read_certificate(data);
    let key = read_key(data);
    let mut objections = Vec::new();
    if let Ok((name, der)) = &certificate {
        objections.extend(about_certificate(name, der, needed, now));
    }
    match (certificate, key) {
        (Ok(certificate), Ok(key)) => joined(certificate, key, objections, now, randomness),
        (certificate, key) => {
            objections.extend(certificate.err());
            objections.extend(key.err());
            Err(objections)
        }
    }
}

type Found<T> = (&'static str, T);

fn value<'a>(data: &'a BTreeMap<String, Vec<u8>>, names: [&'static str; 2]) -> Option<Found<&'a [u8]>> {
    names.into_iter().find_map(|name| data.get(name).map(|value| (name, value.as_slice())))
}

fn read_certificate(data: &BTreeMap<String, Vec<u8>>) -> Result<Found<CertificateDer<'static>>, Objection> {
    let (key, text) = value(data, CERTIFICATE_KEYS).ok_or(Objection::Missing("tls.crt (or ca.crt)"))?;
    let unreadable = |why: String| Objection::UnreadableCertificate { key, why };
    let der = CertificateDer::from_pem_slice(text).map_err(|error| unreadable(error.to_string()))?;
    certificate::read(&der).map_err(unreadable)?;
    Ok((key, der))
}

fn read_key(data: &BTreeMap<String, Vec<u8>>) -> Result<Found<PrivateKey>, Objection> {
    let (key, text) = value(data, PRIVATE_KEYS).ok_or(Objection::Missing("tls.key (or ca.key)"))?;
    let parsed = PrivateKey::from_pem(text);
    parsed.map(|parsed| (key, parsed)).map_err(|error| Objection::UnreadableKey { key, why: error.to_string() })
}

fn about_certificate(name: &'static str, der: &CertificateDer<'_>, needed: Duration, now: Timestamp) -> Vec<Objection> {
    let unreadable = |why| vec![Objection::UnreadableCertificate { key: name, why }];
    let facts = match certificate::read(der) {
        Ok(facts) => facts,
        Err(why) => return unreadable(why),
    };
    let Ok((_, parsed)) = X509Certificate::from_der(der) else { return unreadable("it is no X.509".to_owned()) };
    let rules = [about_role(&facts), about_times(&facts, needed, now), about_key(&parsed), about_subject(&parsed)];
    rules.into_iter().flatten().collect()
}

fn about_role(facts: &Facts) -> Vec<Objection> {
    let mut objections = Vec::new();
    if !facts.is_authority {
        objections.push(Objection::NotAnAuthority);
    }
    // An authority without the extension may sign; one that has it must say so.
    if facts.usage.is_some_and(|usage| !usage.certificate_sign) {
        objections.push(Objection::MayNotSign);
    }
    if facts.path_length == Some(0) {
        objections.push(Objection::PathTooShort);
    }
    objections
}

fn about_times(facts: &Facts, needed: Duration, now: Timestamp) -> Vec<Objection> {
    let until = now.checked_add(needed).unwrap_or(Timestamp::MAX);
    let needed_days = needed.as_secs().div_ceil(24 * 60 * 60);
    let started = now.checked_add(SKEW).unwrap_or(Timestamp::MAX) >= facts.not_before;
    let objection = match () {
        () if facts.not_after <= now => Some(Objection::Expired(facts.not_after)),
        () if !started => Some(Objection::NotYetValid(facts.not_before)),
        () if facts.not_after < until => Some(Objection::TooShortLife { not_after: facts.not_after, needed_days }),
        () => None,
    };
    objection.into_iter().collect()
}

fn about_key(certificate: &X509Certificate<'_>) -> Vec<Objection> {
    let weak = |what: String| vec![Objection::WeakKey(what)];
    match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) if key.key_size() < WEAKEST_RSA => weak(format!("RSA, {} bits", key.key_size())),
        Ok(PublicKey::EC(point)) if point.key_size() < WEAKEST_CURVE => weak(format!("EC, {} bits", point.key_size())),
        Ok(PublicKey::DSA(_)) => weak("DSA".to_owned()),
        _ => Vec::new(),
    }
}

/// The library that signs keeps one value for each attribute, so the issuer's name would come out different.
fn about_subject(certificate: &X509Certificate<'_>) -> Vec<Objection> {
    let mut seen = BTreeSet::new();
    let kinds = certificate.subject().iter_attributes().map(|attribute| attribute.attr_type().to_id_string());
    kinds.filter(|kind| !seen.insert(kind.clone())).map(Objection::RepeatedAttribute).collect()
}

fn joined(
    (certificate_name, certificate): Found<CertificateDer<'static>>,
    (key_name, key): Found<PrivateKey>,
    mut objections: Vec<Objection>,
    now: Timestamp,
    randomness: &dyn Randomness,
) -> Result<Authority, Vec<Objection>> {
    if !belongs(&certificate, &key) {
        objections.push(Objection::KeyMismatch { key: key_name, certificate: certificate_name });
    }
    if !objections.is_empty() {
        return Err(objections);
    }
    let authority = Authority::new(certificate, key).map_err(|error| trial_failed(&error))?;
    try_out(&authority, now, randomness)?;
    Ok(authority)
}

fn belongs(certificate: &CertificateDer<'_>, key: &PrivateKey) -> bool {
    let public = certificate::parse(certificate).map(|parsed| parsed.public_key().raw.to_vec());
    matches!((public, key.public_der()), (Ok(stated), Ok(own)) if stated == own)
}

/// Signs a chain and verifies it as a peer would: what no rule above foresaw shows here and not in a running cluster.
fn try_out(authority: &Authority, now: Timestamp, randomness: &dyn Randomness) -> Result<(), Vec<Objection>> {
    let hour = Duration::from_secs(60 * 60);
    let scope = Scope::cluster("trial", "trial").map_err(|error| trial_failed(&error))?;
    let intermediate = authority.intermediate(&scope, hour, now, randomness).map_err(|error| trial_failed(&error))?;
    let leaf = intermediate.leaf(&scope.identity(), hour, now, randomness).map_err(|error| trial_failed(&error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(leaf.chain_pem.as_bytes()).collect();
    let chain = chain.map_err(|error| trial_failed(&error))?;
    let bundle = authority.bundle().map_err(|error| trial_failed(&error))?;
    verify_peer(&chain, &bundle, now, SKEW).map_err(|error| trial_failed(&error))?;
    Ok(())
}

fn trial_failed(error: &dyn std::error::Error) -> Vec<Objection> {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    vec![Objection::TrialFailed(format!("{error}{source}"))]
}
