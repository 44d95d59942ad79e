//! Short digests of JSON values and texts. Pure.

use api::text::digest;
use serde_json::Value;

/// Sixteen hexadecimal digits: enough to tell two manifests of one object apart.
const LENGTH: usize = 16;

pub fn of_value(value: &Value) -> String {
    of_text(&value.to_string())
}

pub fn of_text(text: &str) -> String {
    digest(text.as_bytes(), LENGTH)
}
