#![allow(clippy::unwrap_used, reason = "also in the helpers of tests")]

use super::*;
use crate::testing::Domain;
use std::time::Duration;

const WANTED: &str = "spiffe://team-a/valkeycluster/poc/sidecar";
const HOUR: Duration = Duration::from_secs(3600);

fn wanted() -> SpiffeId {
    WANTED.parse().unwrap()
}

fn answer(svids: Vec<X509svid>) -> X509svidResponse {
    X509svidResponse { svids, crl: Vec::new(), federated_bundles: HashMap::new() }
}

fn svid() -> X509svid {
    Domain::new("team-a").unwrap().svid(WANTED, HOUR).unwrap()
}

/// The sentence a user reads.
fn refused(answer: X509svidResponse) -> String {
    let error = read(answer, &wanted()).unwrap_err();
    assert!(!error.takes_back(), "{error}");
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {source}")
}

#[test]
fn exactly_the_wanted_identity_is_taken_from_several() {
    let team = Domain::new("team-a").unwrap();
    let other = team.svid("spiffe://team-a/valkeycluster/poc/sidecar-of-mine", HOUR).unwrap();
    let (first, second) = (team.svid(WANTED, HOUR).unwrap(), team.svid(WANTED, 2 * HOUR).unwrap());
    let expected = pki::inspect_leaf(&first.x509_svid.clone().into()).unwrap();
    let (made, left_out) = read(answer(vec![other, first, second]), &wanted()).unwrap();
    assert_eq!((made.leaf(), left_out.len()), (&expected, 0));
}

#[test]
fn without_the_wanted_identity_the_offered_ones_are_named() {
    let team = Domain::new("team-a").unwrap();
    let svids = (0..7).map(|number| team.svid(&format!("spiffe://team-a/{number}"), HOUR).unwrap()).collect();
    let error = read(answer(svids), &wanted()).unwrap_err();
    assert!(error.takes_back());
    let text = error.to_string();
    assert!(text.contains(WANTED) && text.contains("spiffe://team-a/4, 2 more"), "{text}");
}

#[test]
fn an_answer_without_a_mandatory_field_is_no_answer() {
    assert!(refused(answer(Vec::new())).contains("svids"));
    let spoil: [fn(&mut X509svid); 4] = [
        |svid| svid.spiffe_id.clear(),
        |svid| svid.x509_svid.clear(),
        |svid| svid.x509_svid_key.clear(),
        |svid| svid.bundle.clear(),
    ];
    for spoil in spoil {
        let mut other = Domain::new("team-a").unwrap().svid("spiffe://team-a/other", HOUR).unwrap();
        spoil(&mut other);
        assert!(refused(answer(vec![svid(), other])).contains("mandatory field svids."));
    }
}

#[test]
fn broken_material_is_refused_with_what_is_broken() {
    type Case = (&'static str, fn(&mut X509svid));
    let cases: [Case; 5] = [
        ("the certificate chain of spiffe://team-a", |svid| svid.x509_svid.truncate(99)),
        ("the trust bundle of spiffe://team-a", |svid| svid.bundle = vec![1, 2, 3]),
        ("is no certificate authority", |svid| svid.bundle = svid.x509_svid.clone()),
        ("the private key cannot be used", |svid| svid.x509_svid_key = vec![0; 32]),
        ("the private key cannot be used", |one| one.x509_svid_key = svid().x509_svid_key),
    ];
    for (part, spoil) in cases {
        let mut svid = svid();
        spoil(&mut svid);
        let text = refused(answer(vec![svid]));
        assert!(text.contains(part), "{text} (expected: {part})");
    }
}

#[test]
fn a_label_that_is_not_the_certificates_own_is_refused() {
    let mut other = Domain::new("team-a").unwrap().svid("spiffe://team-a/other", HOUR).unwrap();
    other.spiffe_id = WANTED.to_owned();
    assert!(refused(answer(vec![other])).contains("has a certificate of spiffe://team-a/other"));
}

#[test]
fn one_broken_federated_bundle_costs_only_its_own_domain() {
    let system = Domain::new("valkey-system").unwrap();
    let mut answer = answer(vec![svid()]);
    answer.federated_bundles = HashMap::from([
        (system.id(), system.bundle()),
        ("spiffe://broken".to_owned(), vec![9]),
        ("spiffe://empty".to_owned(), Vec::new()),
        ("no-id".to_owned(), system.bundle()),
        ("spiffe://with/path".to_owned(), system.bundle()),
    ]);
    let (made, left_out) = read(answer, &wanted()).unwrap();
    let mut named: Vec<_> = left_out.iter().map(ToString::to_string).collect();
    named.sort();
    assert_eq!(named.len(), 4);
    assert!(named[0].contains("no-id") && named[1].contains("spiffe://broken"), "{named:?}");
    assert_eq!(made.trusted_roots().len(), 2);
}

#[test]
fn a_federated_bundle_does_not_replace_the_domains_own() {
    let (one, stranger) = (svid(), Domain::new("team-a").unwrap());
    let own = pki::Thumbprint::of(&one.bundle.clone().into());
    let mut answer = answer(vec![one]);
    answer.federated_bundles = HashMap::from([(stranger.id(), stranger.bundle())]);
    assert_eq!(read(answer, &wanted()).unwrap().0.trusted_roots(), [own]);
}

#[test]
fn a_private_key_is_not_printed() {
    let svid = svid();
    assert_eq!(format!("{svid:?}"), format!("X509svid {{ spiffe_id: {WANTED:?}, .. }}"));
}
