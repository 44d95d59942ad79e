//! What is issued: exactly what the specification of X.509-SVIDs asks for, and never more than the issuer may give.
#![allow(clippy::unwrap_used, reason = "also in the helpers of tests")]

mod support;

use pki::{Authority, IssueError, Scope, identity, verify_peer};
use proptest::prelude::*;
use std::collections::BTreeSet;
use support::*;
use x509_parser::prelude::*;

#[test]
fn a_leaf_has_every_detail_of_an_svid() {
    let world = World::new();
    let chain = chain_of(&world.leaf());
    let (_, leaf) = X509Certificate::from_der(&chain[0]).unwrap();
    let names = &leaf.subject_alternative_name().unwrap().unwrap().value.general_names;
    assert_eq!(names.as_slice(), [GeneralName::URI("spiffe://team-a/valkeycluster/poc/sidecar")]);
    let usage = leaf.key_usage().unwrap().unwrap();
    assert!(usage.critical);
    assert_eq!(usage.value.flags, 1, "digitalSignature alone");
    let constraints = leaf.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && !constraints.value.ca);
    let purposes = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(purposes.server_auth && purposes.client_auth && !purposes.any && purposes.other.is_empty());
    assert_eq!(leaf.version(), X509Version::V3);
}

#[test]
fn signing_certificates_carry_the_id_of_their_trust_domain_and_may_only_sign() {
    let world = World::new();
    for (authority, id, path_length) in
        [(&world.root, "spiffe://valkey-system", 1), (&world.intermediate, "spiffe://team-a", 0)]
    {
        let (_, certificate) = X509Certificate::from_der(authority.certificate()).unwrap();
        let names = &certificate.subject_alternative_name().unwrap().unwrap().value.general_names;
        assert_eq!(names.as_slice(), [GeneralName::URI(id)]);
        let constraints = certificate.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && constraints.value.ca);
        assert_eq!(constraints.value.path_len_constraint, Some(path_length));
        let usage = certificate.key_usage().unwrap().unwrap();
        assert!(usage.critical && usage.value.key_cert_sign() && !usage.value.digital_signature());
    }
}

#[test]
fn the_chain_is_leaf_then_intermediate_without_the_root() {
    let world = World::new();
    let chain = chain_of(&world.leaf());
    assert_eq!(chain.len(), 2);
    assert_eq!(&chain[1], world.intermediate.certificate());
}

#[test]
fn serial_numbers_are_positive_long_and_never_the_same() {
    let world = World::new();
    let serials: BTreeSet<Vec<u8>> = (0..50)
        .map(|_| X509Certificate::from_der(&chain_of(&world.leaf())[0]).unwrap().1.raw_serial().to_vec())
        .collect();
    assert_eq!(serials.len(), 50);
    assert!(serials.iter().all(|serial| serial.len() == 16 && serial[0] < 0x80));
}

#[test]
fn nothing_outlives_its_issuer() {
    let world = World::new();
    let short = world.root.intermediate(&world.scope, hours(2), world.now, &RANDOM).unwrap();
    let issued = short.leaf(&world.scope.identity(), hours(6), world.now, &RANDOM).unwrap();
    assert_eq!(issued.not_after, short.not_after());
    // An operator whose clock is behind the one that made the intermediate.
    let early = short.leaf(&world.scope.identity(), hours(1), later(world.now, -200), &RANDOM).unwrap();
    assert_eq!(early.not_before, short.not_before());
    let endless = world.root.intermediate(&world.scope, hours(24 * 9999), world.now, &RANDOM).unwrap();
    assert_eq!(endless.not_after(), world.root.not_after());
}

#[test]
fn an_authority_signs_only_what_it_is_for() {
    let world = World::new();
    let other = identity::sidecar("team-b", "poc").unwrap();
    let leaf = |authority: &Authority, id| authority.leaf(id, hours(1), world.now, &RANDOM);
    assert!(matches!(leaf(&world.intermediate, &other), Err(IssueError::OutsideScope { .. })));
    assert!(matches!(leaf(&world.root, &other), Err(IssueError::LeafFromRoot)));
    let scope = Scope::cluster("team-b", "poc").unwrap();
    let nested = world.intermediate.intermediate(&scope, hours(1), world.now, &RANDOM);
    assert!(matches!(nested, Err(IssueError::NestedIntermediate)));
}

#[test]
fn an_expired_authority_and_an_empty_validity_issue_nothing() {
    let world = World::new();
    let end = world.intermediate.not_after();
    let late = world.intermediate.leaf(&world.scope.identity(), hours(1), end, &RANDOM);
    assert!(matches!(late, Err(IssueError::AuthorityExpired(at)) if at == end));
    let empty = world.intermediate.leaf(&world.scope.identity(), hours(0), world.now, &RANDOM);
    assert!(matches!(empty, Err(IssueError::Validity)));
}

#[test]
fn an_authority_is_the_same_after_a_stay_in_a_secret() {
    let world = World::new();
    let [certificate, other] = [&world.intermediate, &world.root].map(|authority| authority.certificate_pem().unwrap());
    let key = world.intermediate.key_pem().unwrap();
    let stored = Authority::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    assert_eq!((stored.scope(), stored.thumbprint()), (Some(&world.scope), world.intermediate.thumbprint()));
    let issued = stored.leaf(&world.scope.identity(), hours(1), world.now, &RANDOM).unwrap();
    assert!(world.verify(&chain_of(&issued)).is_ok());
    let mixed = Authority::from_pem(other.as_bytes(), key.as_bytes());
    assert!(matches!(mixed, Err(IssueError::KeyMismatch)));
    let cut = Authority::from_pem(&certificate.as_bytes()[..200], key.as_bytes());
    assert!(matches!(cut, Err(IssueError::ReadCertificate(_))));
    let cut = Authority::from_pem(certificate.as_bytes(), &key.as_bytes()[..100]);
    assert!(matches!(cut, Err(IssueError::ReadKey(_))));
}

#[test]
fn no_key_is_ever_printed() {
    let world = World::new();
    let key = world.intermediate.key_pem().unwrap();
    let printed = format!("{:?}", world.intermediate);
    assert!(printed.contains("PrivateKey(…)") && !printed.contains(key.lines().nth(1).unwrap()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_leaf_is_issued_verifies_as_itself(
        namespace in "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name in "[a-z]([a-z0-9-]{0,46}[a-z0-9])?",
        validity in 1_u64..40_000_000, second in 0_i64..4_000_000_000,
    ) {
        let now = jiff::Timestamp::from_second(second + 1_000).unwrap();
        let world = World::at(now);
        let scope = Scope::cluster(&namespace, &name).unwrap();
        let intermediate = world.root.intermediate(&scope, hours(24 * 365), now, &RANDOM).unwrap();
        let validity = std::time::Duration::from_secs(validity);
        let issued = intermediate.leaf(&scope.identity(), validity, now, &RANDOM).unwrap();
        prop_assert_eq!(verify_peer(&chain_of(&issued), &world.bundle(), now, std::time::Duration::ZERO), Ok(scope.identity()));
    }

    #[test]
    fn a_chain_with_any_bit_changed_is_refused(which in 0_usize..2, position in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let world = World::new();
        let mut chain = chain_of(&world.leaf());
        let mut bytes = chain[which].to_vec();
        bytes[position.index(chain[which].len())] ^= 1 << bit;
        chain[which] = bytes.into();
        prop_assert!(world.verify(&chain).is_err());
    }
}

#[test]
fn a_leaf_with_any_one_byte_cut_or_changed_is_refused() {
    let world = World::new();
    let good = chain_of(&world.leaf());
    for position in 0..good[0].len() {
        for change in [Some(0xff), None] {
            let mut bytes = good[0].to_vec();
            match change {
                Some(mask) => bytes[position] ^= mask,
                None => drop(bytes.remove(position)),
            }
            let chain = [bytes.into(), good[1].clone()];
            assert!(world.verify(&chain).is_err(), "byte {position}");
        }
    }
}
