//! A certificate's thumbprint: SHA-256 over its DER form, in lower-case hexadecimal, as `openssl x509 -fingerprint -sha256` counts it. Pure.

use rustls_pki_types::{CertificateDer, pem::PemObject};
use sha2::{Digest, Sha256};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thumbprint(String);

impl Thumbprint {
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(base16ct::lower::encode_string(&Sha256::digest(certificate.as_ref())))
    }

    /// Of the first certificate in a text; None when there is none.
    pub fn of_pem(text: &[u8]) -> Option<Self> {
        CertificateDer::from_pem_slice(text).ok().map(|certificate| Self::of(&certificate))
    }

    /// One that was recorded earlier, in a status or by a sidecar. It is only ever compared.
    pub fn recorded(text: &str) -> Self {
        Self(text.to_ascii_lowercase())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
