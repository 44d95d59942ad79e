//! Short digests of JSON values and texts. Pure.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Sixteen hexadecimal digits: enough to tell two manifests of one object apart.
const LENGTH: usize = 16;

pub fn of_value(value: &Value) -> String {
    of_text(&value.to_string())
}

pub fn of_text(text: &str) -> String {
    let digits = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    digits.chars().take(LENGTH).collect()
}
