//! What a certificate says, read out of its DER form once. Pure; nothing here is verified yet.

use crate::scope::{Scope, Subject};
use crate::spiffe_id::SpiffeId;
use crate::thumbprint::Thumbprint;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::*;

/// What a status shows of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafFacts {
    pub id: SpiffeId,
    pub thumbprint: Thumbprint,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// The statements of a certificate that rules check.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub is_authority: bool,
    #[cfg(feature = "issue")]
    pub path_length: Option<u32>,
    pub usage: Option<Usage>,
    /// Whether the certificate may serve and call, if it limits that at all.
    pub purposes: Option<Purposes>,
    pub uri_names: Vec<String>,
    pub scope: Option<Scope>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub digital_signature: bool,
    pub certificate_sign: bool,
    pub list_sign: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Purposes {
    pub server: bool,
    pub client: bool,
}

/// Why the text is no certificate, in the parser's words.
pub(crate) type Unreadable = String;

pub(crate) fn read(der: &CertificateDer<'_>) -> Result<Facts, Unreadable> {
    let certificate = parse(der)?;
    let constraints = certificate.basic_constraints().map_err(|error| error.to_string())?;
    Ok(Facts {
        not_before: moment(certificate.validity().not_before)?,
        not_after: moment(certificate.validity().not_after)?,
        is_authority: constraints.as_ref().is_some_and(|found| found.value.ca),
        #[cfg(feature = "issue")]
        path_length: constraints.and_then(|found| found.value.path_len_constraint),
        usage: usage(&certificate)?,
        purposes: purposes(&certificate)?,
        uri_names: uri_names(&certificate)?,
        scope: subject(certificate.subject()).and_then(|subject| Scope::of_subject(&subject)),
    })
}

/// The parser takes an extension it cannot read for an absent one; here it makes the whole certificate unreadable.
pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Unreadable> {
    let (rest, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
    if !rest.is_empty() {
        return Err("there are bytes behind it".to_owned());
    }
    let broken = |extension: &&X509Extension<'_>| {
        matches!(extension.parsed_extension(), ParsedExtension::ParseError { .. } | ParsedExtension::Unparsed)
    };
    match certificate.extensions().iter().find(broken) {
        Some(extension) => Err(format!("its extension {} is malformed", extension.oid)),
        None => Ok(certificate),
    }
}

fn moment(time: ASN1Time) -> Result<Timestamp, Unreadable> {
    Timestamp::from_second(time.timestamp()).map_err(|error| error.to_string())
}

fn usage(certificate: &X509Certificate<'_>) -> Result<Option<Usage>, Unreadable> {
    let found = certificate.key_usage().map_err(|error| error.to_string())?;
    Ok(found.map(|extension| Usage {
        digital_signature: extension.value.digital_signature(),
        certificate_sign: extension.value.key_cert_sign(),
        list_sign: extension.value.crl_sign(),
    }))
}

fn purposes(certificate: &X509Certificate<'_>) -> Result<Option<Purposes>, Unreadable> {
    let found = certificate.extended_key_usage().map_err(|error| error.to_string())?;
    Ok(found.map(|extension| Purposes { server: extension.value.server_auth, client: extension.value.client_auth }))
}

fn uri_names(certificate: &X509Certificate<'_>) -> Result<Vec<String>, Unreadable> {
    let found = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
    let names = found.iter().flat_map(|extension| &extension.value.general_names);
    names
        .filter_map(|name| match name {
            GeneralName::URI(text) => Some(Ok((*text).to_owned())),
            GeneralName::Invalid(..) => Some(Err("one of its alternative names is malformed".to_owned())),
            _ => None,
        })
        .collect()
}

/// Only the exact shape we write counts: a second attribute of a kind could say two things at once.
fn subject(name: &X509Name<'_>) -> Option<Subject> {
    let [organization, unit, common_name] = attributes(name)?.try_into().ok()?;
    Some(Subject { organization, unit, common_name })
}

fn attributes(name: &X509Name<'_>) -> Option<Vec<String>> {
    let expected = [
        oid_registry::OID_X509_ORGANIZATION_NAME,
        oid_registry::OID_X509_ORGANIZATIONAL_UNIT,
        oid_registry::OID_X509_COMMON_NAME,
    ];
    let found: Vec<_> = name.iter_attributes().collect();
    let same = found.len() == expected.len() && found.iter().zip(&expected).all(|(a, oid)| a.attr_type() == oid);
    let values = found.iter().map(|attribute| attribute.as_str().ok().map(str::to_owned));
    same.then(|| values.collect()).flatten()
}
