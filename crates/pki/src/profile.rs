//! What stands in our certificates: root, intermediate and leaf, by the rules for X.509-SVIDs. Pure; used by the authority.

use crate::issue_error::IssueError;
use crate::scope::Scope;
use crate::spiffe_id::SpiffeId;
use crate::trust_domain::TrustDomain;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyUsagePurpose, NameConstraints, SanType, SerialNumber,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use time::OffsetDateTime;

/// From when to when, and under which number.
pub(crate) struct Frame {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub serial: [u8; 16],
}

/// A root names the trust domain of the operator; below it come intermediates, and below those only leaves.
pub(crate) fn root(trust_domain: &TrustDomain, frame: &Frame) -> Result<CertificateParams, IssueError> {
    let names = [(DnType::OrganizationName, trust_domain.as_str()), (DnType::CommonName, "Valkey operator root")];
    let mut params = named(&SpiffeId::of_trust_domain(trust_domain), &names, frame)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// The order of the names is the one the verifier reads the scope from.
pub(crate) fn intermediate(scope: &Scope, frame: &Frame) -> Result<CertificateParams, IssueError> {
    let subject = scope.subject();
    let names = [
        (DnType::OrganizationName, subject.organization.as_str()),
        (DnType::OrganizationalUnitName, subject.unit.as_str()),
        (DnType::CommonName, subject.common_name.as_str()),
    ];
    let mut params = named(&SpiffeId::of_trust_domain(&scope.trust_domain()), &names, frame)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.name_constraints = Some(no_hosts());
    Ok(params)
}

/// An intermediate for identities can never vouch for a host name or an address, wherever its root may be trusted.
fn no_hosts() -> NameConstraints {
    let everywhere = [
        CidrSubnet::from_v4_prefix(Ipv4Addr::UNSPECIFIED.octets(), 0),
        CidrSubnet::from_v6_prefix(Ipv6Addr::UNSPECIFIED.octets(), 0),
    ];
    let mut excluded_subtrees: Vec<_> = everywhere.into_iter().map(GeneralSubtree::IpAddress).collect();
    excluded_subtrees.push(GeneralSubtree::DnsName(String::new()));
    NameConstraints { permitted_subtrees: Vec::new(), excluded_subtrees }
}

pub(crate) fn leaf(id: &SpiffeId, frame: &Frame) -> Result<CertificateParams, IssueError> {
    let names = [(DnType::OrganizationName, id.trust_domain().as_str())];
    let mut params = named(id, &names, frame)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

fn named(id: &SpiffeId, names: &[(DnType, &str)], frame: &Frame) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::URI(id.to_string().try_into()?)];
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in names {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params.not_before = moment(frame.not_before)?;
    params.not_after = moment(frame.not_after)?;
    params.serial_number = Some(serial(frame.serial));
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// A serial number is positive; the second bit keeps all of them equally long.
fn serial(mut bytes: [u8; 16]) -> SerialNumber {
    if let Some(first) = bytes.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    SerialNumber::from_slice(&bytes)
}

fn moment(timestamp: Timestamp) -> Result<OffsetDateTime, IssueError> {
    OffsetDateTime::from_unix_timestamp(timestamp.as_second()).map_err(|_| IssueError::Validity)
}
