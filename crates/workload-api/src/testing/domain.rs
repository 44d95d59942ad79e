//! A trust domain as a SPIFFE server runs it: an authority that signs leaves itself, with a subject all such servers share.

use crate::contract::X509svid;
use anyhow::Result;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use std::time::{Duration, SystemTime};

pub struct Domain {
    name: String,
    root: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Domain {
    pub fn new(name: &str) -> Result<Self> {
        let mut params = named(&format!("spiffe://{name}"), Duration::from_secs(24 * 3600))?;
        params.distinguished_name.push(DnType::OrganizationName, "SPIFFE");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let root = params.self_signed(&key)?;
        Ok(Self { name: name.to_owned(), root, issuer: Issuer::new(params, key) })
    }

    /// The name its bundle has among federated ones.
    pub fn id(&self) -> String {
        format!("spiffe://{}", self.name)
    }

    pub fn bundle(&self) -> Vec<u8> {
        self.root.der().to_vec()
    }

    /// An identity with a fresh key. The id need not be of this domain: nothing but the verifier keeps a server from it.
    pub fn svid(&self, id: &str, validity: Duration) -> Result<X509svid> {
        let mut params = named(id, validity)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyAgreement];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let leaf = params.signed_by(&key, &self.issuer)?;
        Ok(X509svid {
            spiffe_id: id.to_owned(),
            x509_svid: leaf.der().to_vec(),
            x509_svid_key: key.serialize_der(),
            bundle: self.bundle(),
            hint: String::new(),
        })
    }
}

fn named(id: &str, validity: Duration) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = vec![SanType::URI(id.try_into()?)];
    let now = SystemTime::now();
    params.not_before = (now - Duration::from_secs(10)).into();
    params.not_after = (now + validity).into();
    Ok(params)
}
