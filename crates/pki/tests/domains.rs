//! Trust from SPIFFE bundles: each trust domain's roots vouch for its own people only, and every rule of a leaf holds as ever.
#![allow(clippy::unwrap_used, reason = "also in the helpers of tests")]

mod support;

use pki::{Authority, Bundle, DomainBundles, Refusal, SKEW, Trust};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, KeyUsagePurpose};
use rustls_pki_types::CertificateDer;
use support::*;

const SIDECAR: &str = "spiffe://team-a/valkeycluster/poc/sidecar";
const OPERATOR: &str = "spiffe://valkey-system/valkey-operator";

/// A trust domain as a SPIFFE server runs it: its authority signs leaves itself, and knows nothing of our scopes.
struct Domain {
    name: &'static str,
    root: Authority,
}

impl Domain {
    fn new(name: &'static str) -> Self {
        Self { name, root: foreign_root(&format!("spiffe://{name}")) }
    }

    fn bundle(&self) -> Bundle {
        Bundle::from_der(vec![self.root.certificate().clone()]).unwrap()
    }

    fn leaf(&self, id: &str, change: impl FnOnce(&mut CertificateParams)) -> Chain {
        let mut chain = forged(&self.root, plain_leaf(id, World::new().now), change);
        chain.truncate(1);
        chain
    }
}

/// All have one subject, as those of a SPIFFE server usually do.
fn foreign_root(id: &str) -> Authority {
    let mut params = plain_leaf(id, World::new().now);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages.clear();
    params.not_after = moment(later(World::new().now, 24 * 3600));
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Authority::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
}

fn trust(domains: &[&Domain]) -> Trust {
    let mut bundles = DomainBundles::default();
    domains.iter().for_each(|domain| bundles.insert(domain.name.parse().unwrap(), domain.bundle()));
    bundles.into()
}

fn verify(trust: &Trust, chain: &[CertificateDer<'_>]) -> Result<String, Refusal> {
    trust.verify(chain, World::new().now, SKEW).map(|id| id.to_string())
}

#[test]
fn a_peer_is_believed_below_a_root_of_its_own_trust_domain() {
    let (team, system) = (Domain::new("team-a"), Domain::new("valkey-system"));
    let trust = trust(&[&team, &system]);
    assert_eq!(verify(&trust, &team.leaf(SIDECAR, |_| ())).unwrap(), SIDECAR);
    assert_eq!(verify(&trust, &system.leaf(OPERATOR, |_| ())).unwrap(), OPERATOR);
    assert_eq!(trust.thumbprints().len(), 2);
}

#[test]
fn a_root_of_one_trust_domain_vouches_for_nobody_in_another() {
    let (team, system) = (Domain::new("team-a"), Domain::new("valkey-system"));
    let refusal = verify(&trust(&[&team, &system]), &team.leaf(OPERATOR, |_| ())).unwrap_err();
    assert_eq!(
        refusal,
        Refusal::BadSignature,
        "the operator's domain has a root of that name, which did not sign this"
    );
}

#[test]
fn a_trust_domain_whose_bundle_is_not_known_is_named() {
    let (team, system) = (Domain::new("team-a"), Domain::new("valkey-system"));
    let refusal = verify(&trust(&[&system]), &team.leaf(SIDECAR, |_| ())).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownTrustDomain("team-a".parse().unwrap()));
    assert!(refusal.to_string().contains("team-a"), "{refusal}");
}

#[test]
fn an_intermediate_of_another_trust_domain_does_not_lend_its_root() {
    let (team, system) = (Domain::new("team-a"), Domain::new("valkey-system"));
    let below = odd_intermediate(&team.root, World::new().now, |_| ());
    let chain = forged(&below, plain_leaf(OPERATOR, World::new().now), |_| ());
    assert!(verify(&trust(&[&team, &system]), &chain).is_err());
    let own = forged(&below, plain_leaf(SIDECAR, World::new().now), |_| ());
    assert_eq!(verify(&trust(&[&team, &system]), &own).unwrap(), SIDECAR);
}

#[test]
fn an_authority_shared_by_two_trust_domains_vouches_in_both_because_both_said_so() {
    let team = Domain::new("team-a");
    let mut bundles = DomainBundles::default();
    for name in ["team-a", "valkey-system"] {
        bundles.insert(name.parse().unwrap(), team.bundle());
    }
    assert_eq!(verify(&bundles.into(), &team.leaf(OPERATOR, |_| ())).unwrap(), OPERATOR);
}

/// The reason, and what is done to a good leaf.
type Forgery = (&'static str, fn(&mut CertificateParams));

const FORGERIES: [Forgery; 8] = [
    ("SeveralUriNames", |params| params.subject_alt_names.push(uri("spiffe://team-a/other"))),
    ("NoUriName", |params| params.subject_alt_names.clear()),
    ("InvalidSpiffeId", |params| params.subject_alt_names = vec![uri("spiffe://team-a")]),
    ("CertificateAuthorityAsLeaf", |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
    ("WrongKeyUsage", |params| params.key_usages.push(KeyUsagePurpose::KeyCertSign)),
    ("WrongKeyUsage", |params| params.extended_key_usages.truncate(1)),
    ("Expired", |params| {
        params.not_before = moment(later(World::new().now, -7200));
        params.not_after = moment(later(World::new().now, -3600));
    }),
    ("NotYetValid", |params| params.not_before = moment(later(World::new().now, 1800))),
];

#[test]
fn the_rules_of_a_leaf_hold_in_this_mode_too() {
    let team = Domain::new("team-a");
    let trust = trust(&[&team]);
    for (reason, change) in FORGERIES {
        assert_eq!(verify(&trust, &team.leaf(SIDECAR, change)).unwrap_err().reason(), reason);
    }
    assert_eq!(verify(&trust, &[]).unwrap_err(), Refusal::NoCertificate);
    assert_eq!(verify(&trust, &vec![CertificateDer::from(vec![0]); 6]).unwrap_err(), Refusal::ChainTooLong(6));
}

#[test]
fn an_expired_root_of_a_trust_domain_vouches_for_nobody() {
    let team = Domain::new("team-a");
    let chain = team.leaf(SIDECAR, |params| params.not_after = moment(later(World::new().now, 96 * 3600)));
    let refusal = trust(&[&team]).verify(&chain, later(World::new().now, 48 * 3600), SKEW).unwrap_err();
    assert_eq!(refusal.reason(), "Expired");
}

#[test]
fn in_the_built_in_mode_scopes_still_decide() {
    let world = World::new();
    let trust = Trust::from(world.bundle());
    assert_eq!(verify(&trust, &chain_of(&world.leaf())).unwrap(), SIDECAR);
    let other = world.forged_leaf(|params| params.subject_alt_names = vec![uri(OPERATOR)]);
    assert_eq!(verify(&trust, &other).unwrap_err().reason(), "OtherTrustDomain");
}
