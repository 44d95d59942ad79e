//! What is published, in characters that can be stored and shown: what nodes, kubelets and the API server say goes into it. Pure.

use api::text::plain;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;

/// A status of which every text is plain.
pub fn status<S: Serialize + DeserializeOwned>(status: S) -> S {
    let Ok(mut value) = serde_json::to_value(&status) else { return status };
    if !value_in_place(&mut value) {
        return status;
    }
    serde_json::from_value(value).unwrap_or(status)
}

/// Whether anything was changed.
pub fn value_in_place(value: &mut Value) -> bool {
    match value {
        Value::String(text) => text_in_place(text),
        // All of them, whatever the first ones say.
        Value::Array(list) => list.iter_mut().map(value_in_place).filter(|changed| *changed).count() > 0,
        Value::Object(map) => map.values_mut().map(value_in_place).filter(|changed| *changed).count() > 0,
        _ => false,
    }
}

fn text_in_place(text: &mut String) -> bool {
    let Cow::Owned(changed) = plain(text) else { return false };
    *text = changed;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::cluster::ValkeyClusterStatus;
    use serde_json::json;

    #[test]
    fn every_text_of_a_status_is_plain_and_one_that_is_stays_as_it_was() {
        let pods = |version: &str| json!([{ "name": "orders-0", "connected": true, "sidecarVersion": version }, { "name": "orders-1", "connected": false, "sidecarVersion": version }]);
        let said = |plan: &str, version: &str| -> ValkeyClusterStatus {
            serde_json::from_value(json!({ "plan": plan, "pods": pods(version) })).unwrap()
        };
        assert_eq!(status(said("a\u{85}b\u{1b}[1m", "1\u{9b}")), said("a b\u{fffd}[1m", "1\u{fffd}"));
        assert_eq!(status(said("ä", "1")), said("ä", "1"));
    }
}
