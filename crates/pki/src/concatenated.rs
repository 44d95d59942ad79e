//! Certificates one behind the other without separators, as the SPIFFE Workload API sends chains and bundles. Pure.

use crate::bundle::InvalidBundle;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The certificates in these bytes, in their order. No bytes are no certificates; bytes that are none are an error.
pub fn concatenated_certificates(der: &[u8]) -> Result<Vec<CertificateDer<'static>>, InvalidBundle> {
    let (mut rest, mut found) = (der, Vec::new());
    while !rest.is_empty() {
        let unreadable = |error: String| InvalidBundle::Certificate(found.len() + 1, error);
        let (behind, _) = X509Certificate::from_der(rest).map_err(|error| unreadable(error.to_string()))?;
        let (one, _) = rest.split_at(rest.len().saturating_sub(behind.len()));
        found.push(CertificateDer::from(one.to_vec()));
        rest = behind;
    }
    Ok(found)
}

#[cfg(all(test, feature = "issue"))]
#[allow(clippy::unwrap_used, reason = "also in the helpers of tests")]
mod tests {
    use super::*;
    use crate::{Authority, SystemRandomness};
    use jiff::Timestamp;
    use std::time::Duration;

    fn root() -> CertificateDer<'static> {
        let hour = Duration::from_secs(3600);
        let root = Authority::root(&"team-a".parse().unwrap(), hour, Timestamp::now(), &SystemRandomness);
        root.unwrap().certificate().clone()
    }

    #[test]
    fn certificates_come_apart_as_they_were_put_together() {
        let (one, other) = (root(), root());
        let bytes = [one.as_ref(), other.as_ref()].concat();
        assert_eq!(concatenated_certificates(&bytes), Ok(vec![one, other]));
        assert_eq!(concatenated_certificates(b""), Ok(Vec::new()));
    }

    #[test]
    fn bytes_that_are_no_certificate_are_counted_and_refused() {
        let good = root();
        for (bytes, number) in [([good.as_ref(), b"\x30\x03"].concat(), 2), (good[..good.len() - 1].to_vec(), 1)] {
            let refused = concatenated_certificates(&bytes).unwrap_err();
            assert!(matches!(refused, InvalidBundle::Certificate(found, _) if found == number), "{refused}");
        }
    }
}
