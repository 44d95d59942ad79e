//! Authorities and leaves for the tests: the right ones from `pki`, the wrong ones from rcgen under the same authority.

use anyhow::Result;
use jiff::Timestamp;
use link::Credentials;
use pki::{Authority, Bundle, Scope, SpiffeId, SystemRandomness};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use std::time::Duration;

pub const HOUR: Duration = Duration::from_secs(3600);
pub const NAMESPACE: &str = "team-a";
pub const CLUSTER: &str = "orders";

/// One installation: a root, and what hangs below it.
pub struct Installation {
    root: Authority,
}

/// A chain and its key, as rustls takes them.
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

impl Installation {
    pub fn new() -> Result<Self> {
        let root = Authority::root(&"valkey-system".parse()?, 1000 * HOUR, Timestamp::now(), &SystemRandomness)?;
        Ok(Self { root })
    }

    pub fn bundle(&self) -> Result<Bundle> {
        Ok(self.root.bundle()?)
    }

    fn intermediate(&self, scope: &Scope) -> Result<Authority> {
        Ok(self.root.intermediate(scope, 100 * HOUR, Timestamp::now(), &SystemRandomness)?)
    }

    fn credentials(&self, scope: &Scope, trusted: Bundle) -> Result<Credentials> {
        let leaf = self.intermediate(scope)?.leaf(&scope.identity(), 6 * HOUR, Timestamp::now(), &SystemRandomness)?;
        Ok(Credentials::with_bundle(leaf.chain_pem.as_bytes(), leaf.key_pem.as_bytes(), trusted)?)
    }

    pub fn operator(&self) -> Result<Credentials> {
        self.operator_trusting(self.bundle()?)
    }

    pub fn operator_trusting(&self, trusted: Bundle) -> Result<Credentials> {
        self.credentials(&Scope::operator("valkey-system")?, trusted)
    }

    pub fn sidecar(&self, namespace: &str, cluster: &str) -> Result<Credentials> {
        self.sidecar_trusting(namespace, cluster, self.bundle()?)
    }

    pub fn sidecar_trusting(&self, namespace: &str, cluster: &str, trusted: Bundle) -> Result<Credentials> {
        self.credentials(&Scope::cluster(namespace, cluster)?, trusted)
    }

    /// The right leaf of a cluster, for a client of the test's own.
    pub fn identity(&self, namespace: &str, cluster: &str) -> Result<Identity> {
        self.identity_of(Scope::cluster(namespace, cluster)?)
    }

    /// The operator's, for a server of the test's own.
    pub fn operator_identity(&self) -> Result<Identity> {
        self.identity_of(Scope::operator("valkey-system")?)
    }

    fn identity_of(&self, scope: Scope) -> Result<Identity> {
        let leaf = self.intermediate(&scope)?.leaf(&scope.identity(), HOUR, Timestamp::now(), &SystemRandomness)?;
        let chain = CertificateDer::pem_slice_iter(leaf.chain_pem.as_bytes()).collect::<Result<_, _>>()?;
        Ok(Identity { chain, key: PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes())? })
    }

    /// A leaf of the tested cluster that is right but for what `spoil` does to it.
    pub fn spoiled(&self, spoil: impl FnOnce(&mut CertificateParams) -> Result<()>) -> Result<Identity> {
        let intermediate = self.intermediate(&Scope::cluster(NAMESPACE, CLUSTER)?)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![uri(NAMESPACE, CLUSTER)?];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        valid(&mut params, -3600, 3600);
        spoil(&mut params)?;
        let signer = KeyPair::from_pem(intermediate.key_pem()?.as_str())?;
        let issuer = Issuer::from_ca_cert_der(intermediate.certificate(), signer)?;
        let leaf = params.signed_by(&key, &issuer)?;
        let chain = vec![leaf.der().clone(), intermediate.certificate().clone()];
        Ok(Identity { chain, key: PrivatePkcs8KeyDer::from(key.serialize_der()).into() })
    }
}

pub fn operator_id() -> Result<SpiffeId> {
    Ok(pki::identity::operator("valkey-system")?)
}

pub fn uri(namespace: &str, cluster: &str) -> Result<SanType> {
    Ok(SanType::URI(pki::identity::sidecar(namespace, cluster)?.to_string().try_into()?))
}

/// Validity in seconds from now.
pub fn valid(params: &mut CertificateParams, from: i64, to: i64) {
    let now = std::time::SystemTime::now();
    let at = |seconds: i64| {
        let distance = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { now - distance } else { now + distance }
    };
    params.not_before = at(from).into();
    params.not_after = at(to).into();
}
