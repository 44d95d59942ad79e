//! CEL rules that several of the certificate resources share. Pure.

use crate::cluster::rules::{immutable, rule};
use serde_json::{Value, json};

/// Names of Secrets and of our own resources.
pub fn object_name(field: &str) -> Value {
    let message = format!(
        "{field} must be the name of an object: use at most 253 characters out of a-z, 0-9, '-' and '.', with a letter or digit at both ends"
    );
    json!([rule("self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')", &message)])
}

/// SHA-256 in hexadecimal. Forty digits, SHA-1, are what other tools may have written.
pub fn thumbprint() -> Value {
    json!([rule(
        "self.matches('^([0-9a-f]{64}|[0-9a-f]{40})$')",
        "thumbprint must be the SHA-256 of the certificate in lower-case hexadecimal: write its 64 digits"
    )])
}

pub fn unchanged(field: &str, way_out: &str) -> Value {
    immutable("self == oldSelf", &format!("{field} cannot change after creation: {way_out}"))
}

/// Both moments are optional, because the object is there before the certificate is.
pub fn ends_after_it_begins() -> Value {
    rule(
        "!has(self.issuedAt) || !has(self.expiresAt) || self.expiresAt > self.issuedAt",
        "expiresAt must be later than issuedAt: write the moments of the certificate",
    )
}
