//! One test for each rule of the verifier: what we issue is let in, and everything else is refused with its own reason.
#![allow(clippy::unwrap_used, reason = "also in the helpers of tests")]

mod support;

use pki::{Authority, Bundle, ChainPosition, InvalidBundle, Refusal, SKEW, Scope, identity, inspect_leaf, verify_peer};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
    SanType,
};
use rustls_pki_types::CertificateDer;
use std::time::Duration;
use support::*;

#[test]
fn a_leaf_of_ours_is_who_it_says_it_is() {
    let world = World::new();
    let issued = world.leaf();
    let id = identity::sidecar("team-a", "poc").unwrap();
    assert_eq!(world.verify(&chain_of(&issued)), Ok(id.clone()));
    let facts = inspect_leaf(&chain_of(&issued)[0]).unwrap();
    assert_eq!((facts.id, facts.thumbprint), (id, issued.thumbprint.clone()));
    assert_eq!((facts.not_before, facts.not_after), (issued.not_before, issued.not_after));
}

#[test]
fn the_recipe_for_forged_leaves_is_accepted_when_nothing_is_changed() {
    let world = World::new();
    assert_eq!(world.verify(&world.forged_leaf(|_| ())), Ok(world.scope.identity()));
}

/// What is changed in a good leaf, and the reason it must be refused with.
type Forgery = (&'static str, &'static str, fn(&mut CertificateParams));

const FORGERIES: [Forgery; 17] = [
    ("two URI names", "SeveralUriNames", |params| params.subject_alt_names.push(uri("spiffe://team-a/other"))),
    ("the same URI name twice", "SeveralUriNames", |params| {
        params.subject_alt_names.extend(params.subject_alt_names.clone());
    }),
    ("no URI name", "NoUriName", |params| params.subject_alt_names.clear()),
    ("an email address instead", "NoUriName", |params| {
        params.subject_alt_names = vec![SanType::Rfc822Name("a@b".try_into().unwrap())];
    }),
    ("a URI that is no SPIFFE id", "InvalidSpiffeId", |params| {
        params.subject_alt_names = vec![uri("https://team-a/x")]
    }),
    ("the id of a trust domain", "InvalidSpiffeId", |params| params.subject_alt_names = vec![uri("spiffe://team-a")]),
    ("another namespace", "OtherTrustDomain", |params| {
        params.subject_alt_names = vec![uri("spiffe://team-b/valkeycluster/poc/sidecar")];
    }),
    ("the operator", "OtherTrustDomain", |params| {
        params.subject_alt_names = vec![uri("spiffe://valkey-system/valkey-operator")];
    }),
    ("another cluster", "OtherWorkload", |params| {
        params.subject_alt_names = vec![uri("spiffe://team-a/valkeycluster/other/sidecar")];
    }),
    ("the operator of this namespace", "OtherWorkload", |params| {
        params.subject_alt_names = vec![uri("spiffe://team-a/valkey-operator")];
    }),
    ("an authority", "CertificateAuthorityAsLeaf", |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
    ("a key that signs certificates", "WrongKeyUsage", |params| params.key_usages.push(KeyUsagePurpose::KeyCertSign)),
    ("a key that signs revocation lists", "WrongKeyUsage", |params| params.key_usages.push(KeyUsagePurpose::CrlSign)),
    ("a key that signs nothing", "WrongKeyUsage", |params| params.key_usages = vec![KeyUsagePurpose::KeyAgreement]),
    ("a key without usage", "WrongKeyUsage", |params| params.key_usages.clear()),
    ("a key for serving only", "WrongKeyUsage", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    }),
    ("a host name", "IssuerMayNotSign", |params| {
        params.subject_alt_names.push(SanType::DnsName("bank.example".try_into().unwrap()));
    }),
];

#[test]
fn every_forgery_is_refused_for_its_own_reason() {
    let world = World::new();
    for (what, reason, change) in FORGERIES {
        let refusal = world.verify(&world.forged_leaf(change)).expect_err(what);
        assert_eq!(refusal.reason(), reason, "{what}: {refusal}");
    }
}

#[test]
fn a_leaf_without_extended_usages_is_fine() {
    let world = World::new();
    assert!(world.verify(&world.forged_leaf(|params| params.extended_key_usages.clear())).is_ok());
}

#[test]
fn no_certificate_and_garbage_are_refused() {
    let world = World::new();
    assert_eq!(world.verify(&[]), Err(Refusal::NoCertificate));
    for garbage in [&b""[..], b"\x30", b"GET / HTTP/1.1", &[0x30; 4096]] {
        let refusal = world.verify(&[CertificateDer::from(garbage)]).unwrap_err();
        assert_eq!(refusal.reason(), "Malformed");
    }
    let mut trailing = chain_of(&world.leaf());
    trailing[0] = CertificateDer::from([trailing[0].as_ref(), b"\0"].concat());
    assert_eq!(world.verify(&trailing).unwrap_err().reason(), "Malformed");
    assert_eq!(inspect_leaf(&trailing[0]).unwrap_err().reason(), "Malformed");
}

#[test]
fn a_chain_longer_than_any_of_ours_is_refused_before_it_is_read() {
    let world = World::new();
    let chain = vec![CertificateDer::from(vec![0]); 6];
    assert_eq!(world.verify(&chain), Err(Refusal::ChainTooLong(6)));
}

#[test]
fn clocks_may_differ_by_minutes_and_not_by_more() {
    let world = World::new();
    let issued = world.leaf();
    let chain = chain_of(&issued);
    let verify = |moment| verify_peer(&chain, &world.bundle(), moment, SKEW).map_err(|refusal| refusal.reason());
    let skew = SKEW.as_secs() as i64;
    assert!(verify(later(issued.issued_at, -2 * skew)).is_ok(), "backdated and tolerated");
    assert_eq!(verify(later(issued.issued_at, -2 * skew - 1)), Err("NotYetValid"));
    assert!(verify(later(issued.not_after, skew)).is_ok());
    assert_eq!(verify(later(issued.not_after, skew + 1)), Err("Expired"));
}

#[test]
fn an_expired_intermediate_is_refused_although_the_leaf_is_not() {
    let world = World::new();
    let short = world.root.intermediate(&world.scope, hours(1), world.now, &RANDOM).unwrap();
    let chain = forged(&short, world.plain_leaf(), |params| params.not_after = moment(later(world.now, 9 * 3600)));
    let refusal = verify_peer(&chain, &world.bundle(), later(world.now, 7200), SKEW).unwrap_err();
    assert_eq!(refusal.to_string(), format!("the issuer certificate expired at {}", short.not_after()));
}

/// Our own code lets no intermediate outlive its root.
#[test]
fn an_expired_root_vouches_for_nobody() {
    let world = World::new();
    let root = Authority::root(&"valkey-system".parse().unwrap(), hours(1), world.now, &RANDOM).unwrap();
    let intermediate = odd_intermediate(&root, world.now, |_| ());
    let afterwards = later(world.now, 2 * 3600);
    let chain = forged(&intermediate, plain_leaf(&world.scope.identity().to_string(), afterwards), |_| ());
    let refusal = verify_peer(&chain, &root.bundle().unwrap(), afterwards, SKEW).unwrap_err();
    assert_eq!(refusal, Refusal::Expired(ChainPosition::Root, root.not_after()));
}

#[test]
fn a_stranger_root_is_unknown_and_one_with_our_name_does_not_fit() {
    let world = World::new();
    let other = Authority::root(&"elsewhere".parse().unwrap(), hours(99), world.now, &RANDOM).unwrap();
    let namesake = Authority::root(&"valkey-system".parse().unwrap(), hours(99), world.now, &RANDOM).unwrap();
    let chain = chain_of(&world.leaf());
    let verify = |root: &Authority| verify_peer(&chain, &root.bundle().unwrap(), world.now, SKEW);
    assert_eq!(verify(&other), Err(Refusal::UnknownIssuer));
    assert_eq!(verify(&namesake), Err(Refusal::BadSignature));
    assert_eq!(verify_peer(&chain, &Bundle::default(), world.now, SKEW), Err(Refusal::UnknownIssuer));
}

#[test]
fn a_leaf_without_its_intermediate_leads_nowhere() {
    let world = World::new();
    let chain = chain_of(&world.leaf());
    assert_eq!(world.verify(&chain[..1]), Err(Refusal::UnknownIssuer));
}

#[test]
fn during_a_change_of_root_leaves_of_both_are_believed_and_afterwards_only_the_new() {
    let world = World::new();
    let next = World::at(world.now);
    let both = world.bundle().merge(next.bundle());
    for chain in [chain_of(&world.leaf()), chain_of(&next.leaf())] {
        assert!(verify_peer(&chain, &both, world.now, SKEW).is_ok());
    }
    let only_new = both.without(&world.root.thumbprint());
    assert_eq!(only_new.thumbprints(), [next.root.thumbprint()]);
    assert!(verify_peer(&chain_of(&world.leaf()), &only_new, world.now, SKEW).is_err());
    assert!(verify_peer(&chain_of(&next.leaf()), &only_new, world.now, SKEW).is_ok());
}

#[test]
fn a_root_signs_no_leaf() {
    let world = World::new();
    let refusal = world.verify(&forged(&world.root, world.plain_leaf(), |_| ())).unwrap_err();
    assert_eq!(refusal.reason(), "IssuerMayNotSign");
}

#[test]
fn a_leaf_signs_nothing() {
    let world = World::new();
    let issued = world.leaf();
    let leaf = Authority::from_pem(issued.chain_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap();
    let mut chain = forged(&leaf, world.plain_leaf(), |_| ());
    chain.push(world.intermediate.certificate().clone());
    assert_eq!(world.verify(&chain).unwrap_err().reason(), "IssuerMayNotSign");
}

#[test]
fn an_intermediate_makes_no_further_authority() {
    let world = World::new();
    let nested = odd_intermediate(&world.intermediate, world.now, |params| {
        params.distinguished_name.push(DnType::CommonName, "nested");
    });
    let mut chain = forged(&nested, world.plain_leaf(), |_| ());
    chain.push(world.intermediate.certificate().clone());
    assert_eq!(world.verify(&chain), Err(Refusal::IssuerMayNotSign("its path length is used up")));
}

/// A part of the refusal, and what is changed in a good intermediate so that its leaf gets it.
type OddIntermediate = (&'static str, fn(&mut CertificateParams));

const ODD_INTERMEDIATES: [OddIntermediate; 8] = [
    ("does not say that it signs certificates", |params| params.key_usages = vec![KeyUsagePurpose::CrlSign]),
    ("does not say that it signs certificates", |params| params.key_usages.clear()),
    ("names no operator and no cluster", |params| {
        params.distinguished_name.push(DnType::CountryName, "DE");
    }),
    ("names no operator and no cluster", |params| {
        params.distinguished_name.push(DnType::OrganizationalUnitName, "valkeysentinel");
    }),
    ("is not that of the namespace", |params| params.subject_alt_names = vec![uri("spiffe://team-b")]),
    ("is not that of the namespace", |params| params.subject_alt_names.clear()),
    ("a signing certificate's id has no path", |params| params.subject_alt_names = vec![uri("spiffe://team-a/x")]),
    ("a signing certificate's id has no path", |params| params.subject_alt_names.push(uri("spiffe://team-b"))),
];

#[test]
fn an_intermediate_that_is_not_like_ours_speaks_for_nobody() {
    let world = World::new();
    let verify = |change: fn(&mut CertificateParams)| {
        let intermediate = odd_intermediate(&world.root, world.now, change);
        world.verify(&forged(&intermediate, world.plain_leaf(), |_| ()))
    };
    assert_eq!(verify(|_| ()), Ok(world.scope.identity()));
    for (part, change) in ODD_INTERMEDIATES {
        let refusal = verify(change).unwrap_err();
        assert!(refusal.to_string().contains(part), "{refusal} (expected: {part})");
    }
}

/// An extension of this number under id-ce with content that is none.
fn broken_extension(number: u64, content: &[u8]) -> CustomExtension {
    CustomExtension::from_oid_content(&[2, 5, 29, number], content.to_vec())
}

#[test]
fn an_extension_that_cannot_be_read_does_not_count_as_absent() {
    let world = World::new();
    let purposes = world.forged_leaf(|params| {
        params.extended_key_usages.clear();
        params.custom_extensions = vec![broken_extension(37, b"\x30\x05\x06")];
    });
    assert_eq!(world.verify(&purposes).unwrap_err().reason(), "Malformed");
    assert_eq!(inspect_leaf(&purposes[0]).unwrap_err().reason(), "Malformed");
    let name = [&b"\x30\x16\x86\x10spiffe://team-a/"[..], b"\x86\x02\xff\xff"].concat();
    let names = world.forged_leaf(|params| {
        params.subject_alt_names.clear();
        params.custom_extensions = vec![broken_extension(17, &name)];
    });
    assert_eq!(world.verify(&names).unwrap_err().reason(), "Malformed");
    assert_eq!(inspect_leaf(&names[0]).unwrap_err().reason(), "Malformed");
}

#[test]
fn the_operator_has_an_intermediate_of_its_own() {
    let world = World::new();
    let scope = Scope::operator("valkey-system").unwrap();
    let intermediate = world.root.intermediate(&scope, hours(24), world.now, &RANDOM).unwrap();
    let issued = intermediate.leaf(&scope.identity(), hours(6), world.now, &RANDOM).unwrap();
    assert_eq!(world.verify(&chain_of(&issued)), identity::operator("valkey-system").map_err(|_| unreachable!()));
}

#[test]
fn a_bundle_that_is_none_is_refused_with_the_reason() {
    let world = World::new();
    let leaf = chain_of(&world.leaf());
    assert_eq!(Bundle::from_pem(b"").unwrap_err(), InvalidBundle::Empty);
    assert_eq!(Bundle::from_pem(b"no PEM at all").unwrap_err(), InvalidBundle::Empty);
    let cut = b"-----BEGIN CERTIFICATE-----\nMIIB";
    assert!(matches!(Bundle::from_pem(cut).unwrap_err(), InvalidBundle::Text(_)));
    assert_eq!(Bundle::from_der(vec![leaf[0].clone()]).unwrap_err(), InvalidBundle::NotAnAuthority(1));
    let text = world.bundle().merge(World::new().bundle()).to_pem().unwrap();
    assert_eq!(Bundle::from_pem(text.as_bytes()).unwrap().thumbprints().len(), 2);
}

#[test]
fn no_tolerance_is_possible_too() {
    let world = World::new();
    let issued = world.leaf();
    let verify = |moment| verify_peer(&chain_of(&issued), &world.bundle(), moment, Duration::ZERO);
    assert!(verify(issued.not_after).is_ok());
    assert_eq!(verify(later(issued.not_after, 1)).unwrap_err().reason(), "Expired");
}
