//! The rules of the user's own labels and annotations. Pure; used by the schema of the spec.

use super::rules::rule;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

const MOST_ENTRIES: usize = 64;
/// As `text::is_kept`.
pub const NOT_KEPT: &str = r"[\\x7f-\\x9f\\x{2028}\\x{2029}\\x{fffe}\\x{ffff}]";
const QUALIFIED_NAME: &str = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";

pub fn labels(_: &mut SchemaGenerator) -> Schema {
    let value =
        json!({ "type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$" });
    let system = rule(
        "!self.exists(k, k == 'controller-revision-hash' || k.startsWith('statefulset.kubernetes.io/') || k.startsWith('apps.kubernetes.io/'))",
        "labels must not hold a key that Kubernetes sets on the pods of a StatefulSet: choose another key",
    );
    map("labels", &value, vec![system])
}

pub fn annotations(_: &mut SchemaGenerator) -> Schema {
    let kept = rule(
        &format!("self.all(k, !self[k].matches('{NOT_KEPT}'))"),
        "annotations holds a value with a character that the API server does not keep: take out U+007F to U+009F, U+2028 and U+2029",
    );
    map("annotations", &json!({ "type": "string", "maxLength": 4096 }), vec![kept])
}

fn map(field: &str, value: &Value, mut rules: Vec<Value>) -> Schema {
    rules.extend([reserved(field), well_formed(field)]);
    json_schema!({
        "type": "object",
        "maxProperties": MOST_ENTRIES,
        "additionalProperties": value,
        "x-kubernetes-validations": rules,
    })
}

fn reserved(field: &str) -> Value {
    rule(
        "!self.exists(k, k.startsWith('valkey.io/') || k.startsWith('app.kubernetes.io/'))",
        &format!(
            "{field} must not hold a key that begins with valkey.io/ or app.kubernetes.io/, because the operator sets those: choose another key"
        ),
    )
}

fn well_formed(field: &str) -> Value {
    rule(
        &format!(
            "self.all(k, k.size() <= 317 && k.matches('{QUALIFIED_NAME}') && k.split('/')[k.split('/').size() - 1].size() <= 63)"
        ),
        &format!(
            "{field} holds a malformed key: write a name of at most 63 letters, digits, '-', '_' or '.', with an optional DNS prefix and '/'"
        ),
    )
}
