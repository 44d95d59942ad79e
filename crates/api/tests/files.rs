//! Files as people wrote them against drafts of the API: what is refused, in whose words, and that nothing of them is dropped in silence.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

use kube_core::cel::Validator;
use serde::Deserialize;
use serde_json::{Value, json};

const REFERENCE: &str = include_str!("files/reference.yaml");
const DRAFT: &str = include_str!("files/draft.yaml");
const SHORT_DRAFT: &str = include_str!("files/short-draft.yaml");
/// Kinds that are still to come; the API server has no match for them.
const STILL_TO_COME: [&str; 3] = ["ValkeyClusterTls", "ValkeyClusterAcl", "ValkeyClusterDefaults"];

fn documents(text: &str) -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
}

fn document(text: &str, kind: &str) -> Value {
    documents(text).into_iter().find(|document| document["kind"] == kind).unwrap()
}

fn schema(kind: &str) -> Option<Value> {
    let definition = api::definition::all().into_iter().find(|definition| definition.spec.names.kind == kind)?;
    let schema = definition.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.clone();
    Some(serde_json::to_value(schema).unwrap())
}

/// Where the value is of another type than the schema says, as the API server judges before it looks at rules.
fn mistyped(path: &str, value: &Value, schema: &Value, found: &mut Vec<String>) {
    let kind = match value {
        Value::Null => return,
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let either = schema["x-kubernetes-int-or-string"] == true && ["integer", "string"].contains(&kind);
    if !either && schema["type"] != kind {
        found.push(format!("{path} is no {}", schema["type"].as_str().unwrap_or("int-or-string")));
    }
    each(path, value, schema, |path, value, schema| mistyped(path, value, schema, found));
}

/// Fields that the schema does not have, which the API server drops.
fn undeclared(path: &str, value: &Value, schema: &Value, found: &mut Vec<String>) {
    if schema["type"] == "object" && schema["additionalProperties"].is_null() {
        let keys = value.as_object().into_iter().flat_map(|map| map.keys());
        let unknown = keys.filter(|key| schema["properties"].get(key.as_str()).is_none());
        found.extend(unknown.map(|key| format!("{path}.{key}")));
    }
    each(path, value, schema, |path, value, schema| undeclared(path, value, schema, found));
}

/// What is inside, as far as the schema knows it.
fn each(path: &str, value: &Value, schema: &Value, mut visit: impl FnMut(&str, &Value, &Value)) {
    for (key, child) in value.as_object().into_iter().flatten() {
        let known = schema["properties"].get(key).or(schema.get("additionalProperties"));
        known.into_iter().for_each(|schema| visit(&format!("{path}.{key}"), child, schema));
    }
    for (index, child) in value.as_array().into_iter().flatten().enumerate() {
        schema.get("items").into_iter().for_each(|schema| visit(&format!("{path}[{index}]"), child, schema));
    }
}

fn type_errors(document: &Value) -> Vec<String> {
    let (mut found, schema) = (Vec::new(), schema(document["kind"].as_str().unwrap()).unwrap());
    mistyped("spec", &document["spec"], &schema["properties"]["spec"], &mut found);
    found
}

/// What the rules say; empty when nothing.
fn objections(document: &Value) -> String {
    let schema = schema(document["kind"].as_str().unwrap()).unwrap();
    let verdict = Validator::new().validate(&schema, document, None);
    verdict.err().map(|errors| errors.to_string()).unwrap_or_default()
}

#[test]
fn no_field_of_any_file_is_dropped_in_silence() {
    for document in [REFERENCE, DRAFT, SHORT_DRAFT].into_iter().flat_map(documents) {
        let kind = document["kind"].as_str().unwrap();
        let Some(schema) = schema(kind) else {
            assert!(STILL_TO_COME.contains(&kind), "{kind}");
            continue;
        };
        let mut found = Vec::new();
        undeclared("spec", &document["spec"], &schema["properties"]["spec"], &mut found);
        // Below one that has another type than in the file there is nothing to declare.
        assert_eq!(found, Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn the_reference_is_taken_once_its_tag_is_quoted_and_what_is_still_to_come_is_left_out() {
    let mut cluster = document(REFERENCE, "ValkeyCluster");
    assert_eq!(type_errors(&cluster), ["spec.valkeyImage.tag is no string"]);
    cluster["spec"]["valkeyImage"]["tag"] = json!("8.1");
    assert_eq!(type_errors(&cluster), Vec::<String>::new());
    let found = objections(&cluster);
    assert!(found.contains("leave tls out") && found.contains("leave acl out"), "{found}");
    let spec = cluster["spec"].as_object_mut().unwrap();
    spec.remove("tls");
    spec.remove("acl");
    assert_eq!(objections(&cluster), "");
}

#[test]
fn the_certificates_of_the_reference_are_taken_as_they_are() {
    for kind in ["ValkeyCA", "ValkeyCertificateBundle", "ValkeyCertificateBinding"] {
        let document = document(REFERENCE, kind);
        assert_eq!((type_errors(&document), objections(&document)), (Vec::new(), String::new()), "{kind}");
    }
}

#[test]
fn a_draft_is_refused_with_what_to_write_instead() {
    let draft = [("draft", DRAFT, 3), ("short draft", SHORT_DRAFT, 2)];
    for (name, text, types) in draft {
        let mut cluster = document(text, "ValkeyCluster");
        let found = type_errors(&cluster);
        assert_eq!(found.len(), types, "{name}: {found:?}");
        assert!(
            found.contains(&"spec.tls is no string".to_owned()) && found.contains(&"spec.acl is no string".to_owned())
        );
        (cluster["spec"]["tls"], cluster["spec"]["acl"]) = (json!("valkey-poc-tls"), json!("valkey-poc-acl"));
        cluster["spec"]["valkeyImage"] = json!({ "tag": "8.1" });
        let found = objections(&cluster);
        for part in ["leave clusterType out", "leave clusterPassword out", "leave tls out", "leave acl out"] {
            assert!(found.contains(part), "{name}: {part}: {found}");
        }
        assert!(!found.contains("secret-pass"), "a password is repeated: {found}");
    }
    assert!(objections(&document(SHORT_DRAFT, "ValkeyCluster")).contains("podAntiAffinity holds rules and no switch"));
    assert!(objections(&document(DRAFT, "ValkeyCA")).contains("leave caKeySecretRef out"));
}
