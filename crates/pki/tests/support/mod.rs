//! A small world for the tests: a root, intermediates, leaves as we issue them, and recipes for leaves as nobody should.
#![allow(dead_code, reason = "each test file uses its own part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of tests")]

use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Bundle, Issued, Refusal, SKEW, Scope, SpiffeId, SystemRandomness, verify_peer};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::time::Duration;
use time::OffsetDateTime;

pub const RANDOM: SystemRandomness = SystemRandomness;
pub type Chain = Vec<CertificateDer<'static>>;

pub fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3600)
}

pub fn later(now: Timestamp, seconds: i64) -> Timestamp {
    now + SignedDuration::from_secs(seconds)
}

pub fn chain_of(issued: &Issued) -> Chain {
    CertificateDer::pem_slice_iter(issued.chain_pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

pub struct World {
    pub now: Timestamp,
    pub root: Authority,
    pub scope: Scope,
    pub intermediate: Authority,
}

impl World {
    pub fn at(now: Timestamp) -> Self {
        let root = Authority::root(&"valkey-system".parse().unwrap(), hours(24 * 3650), now, &RANDOM).unwrap();
        let scope = Scope::cluster("team-a", "poc").unwrap();
        let intermediate = root.intermediate(&scope, hours(24 * 365), now, &RANDOM).unwrap();
        Self { now, root, scope, intermediate }
    }

    pub fn new() -> Self {
        Self::at(Timestamp::from_second(1_800_000_000).unwrap())
    }

    pub fn bundle(&self) -> Bundle {
        self.root.bundle().unwrap()
    }

    pub fn leaf(&self) -> Issued {
        self.intermediate.leaf(&self.scope.identity(), hours(6), self.now, &RANDOM).unwrap()
    }

    pub fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<SpiffeId, Refusal> {
        verify_peer(chain, &self.bundle(), self.now, SKEW)
    }

    /// A leaf below our intermediate, like ours but for what `change` does to it.
    pub fn forged_leaf(&self, change: impl FnOnce(&mut CertificateParams)) -> Chain {
        forged(&self.intermediate, self.plain_leaf(), change)
    }

    pub fn plain_leaf(&self) -> CertificateParams {
        plain_leaf(&self.scope.identity().to_string(), self.now)
    }
}

/// An intermediate for team-a/poc below this root, like ours but for what `change` does to it.
pub fn odd_intermediate(root: &Authority, now: Timestamp, change: impl FnOnce(&mut CertificateParams)) -> Authority {
    let mut params = plain_leaf("spiffe://team-a", now);
    params.distinguished_name.push(DnType::OrganizationalUnitName, "valkeycluster");
    params.distinguished_name.push(DnType::CommonName, "poc");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages.clear();
    params.not_after = moment(later(now, 24 * 3600));
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer(root)).unwrap();
    Authority::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
}

/// What a leaf of ours says, written down a second time.
pub fn plain_leaf(id: &str, now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "team-a");
    params.subject_alt_names = vec![uri(id)];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = moment(later(now, -60));
    params.not_after = moment(later(now, 3600));
    params.use_authority_key_identifier_extension = true;
    params
}

pub fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

pub fn moment(timestamp: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(timestamp.as_second()).unwrap()
}

pub fn issuer(authority: &Authority) -> Issuer<'static, KeyPair> {
    let key = KeyPair::from_pem(&authority.key_pem().unwrap()).unwrap();
    Issuer::from_ca_cert_der(authority.certificate(), key).unwrap()
}

pub fn forged(by: &Authority, mut params: CertificateParams, change: impl FnOnce(&mut CertificateParams)) -> Chain {
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, &issuer(by)).unwrap();
    vec![leaf.der().clone(), by.certificate().clone()]
}
