//! When a certificate should have been renewed long ago. Pure: the clock is passed in.

use super::status::CertificateStatus;
use jiff::Timestamp;
use link::contract::CertificateNearExpiry;
use pki::SKEW;

/// Renewal is due when at most a third of its life is left; below a tenth something is wrong.
const TENTH: i64 = 10;
const PURPOSE: &str = "mtls";

#[derive(Debug, Default)]
pub struct NearExpiry {
    reported: String,
}

impl NearExpiry {
    /// Once for each certificate.
    pub fn news(&mut self, certificate: &CertificateStatus, now: Timestamp) -> Option<CertificateNearExpiry> {
        let expires = certificate.expires.as_second();
        // Certificates are dated back by as much as clocks may differ; that is no part of their life.
        let issued = certificate.issued.as_second().saturating_add(SKEW.as_secs().cast_signed());
        let near = expires.saturating_sub(now.as_second()) < expires.saturating_sub(issued) / TENTH;
        if !near || self.reported == certificate.thumbprint {
            return None;
        }
        self.reported.clone_from(&certificate.thumbprint);
        let expires_unix_seconds = u64::try_from(expires).unwrap_or_default();
        Some(CertificateNearExpiry { purpose: PURPOSE.to_owned(), expires_unix_seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_told_of_once_in_its_last_tenth() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let certificate = |thumbprint: &str| CertificateStatus {
            id: String::new(),
            thumbprint: thumbprint.to_owned(),
            issued: at(700),
            expires: at(2_000),
            trusted_roots: Vec::new(),
        };
        let mut expiry = NearExpiry::default();
        assert_eq!(expiry.news(&certificate("one"), at(1_850)), None);
        assert_eq!(expiry.news(&certificate("one"), at(1_901)).unwrap().expires_unix_seconds, 2_000);
        assert_eq!(expiry.news(&certificate("one"), at(1_950)), None);
        assert!(expiry.news(&certificate("two"), at(2_001)).is_some());
    }
}
