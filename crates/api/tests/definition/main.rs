//! The committed CustomResourceDefinitions are those the types give, and take what released ones took.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

mod growth;
mod stored;

use api::cluster::{OF_AUTHORITY, OF_CLUSTER, RefusedField};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_committed_definitions_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crd");
    let definitions = api::definition::all();
    for definition in &definitions {
        let name = definition.metadata.name.clone().unwrap();
        let committed = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap_or_default();
        let current = api::yaml::to_string(definition).unwrap();
        assert!(committed == current, "{name} is out of date: run `make generate` and commit the result");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), definitions.len(), "a definition that is no longer made");
}

#[test]
fn every_field_of_every_definition_is_documented() {
    let mut missing = Vec::new();
    for (kind, root) in roots() {
        each_field("", &root, &mut |path, field| {
            // Every object has these, and the API server explains them itself.
            let own = [".apiVersion", ".kind", ".metadata"].contains(&path);
            missing.extend((!own && field.get("description").is_none()).then(|| format!("{kind}{path}")));
        });
    }
    assert!(missing.is_empty(), "without a description: {missing:?}");
}

/// Every named field at any depth, with its path and its schema.
fn each_field(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        visit(&path, child);
        each_field(&path, child, visit);
    }
    for inner in ["items", "additionalProperties"] {
        schema.get(inner).into_iter().for_each(|child| each_field(&format!("{path}[]"), child, visit));
    }
}

fn roots() -> Vec<(String, Value)> {
    let root = |definition: &CustomResourceDefinition| {
        let schema =
            serde_json::to_value(definition).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        (definition.spec.names.kind.clone(), schema)
    };
    api::definition::all().iter().map(root).collect()
}

/// What a field that cannot change, or not freely, says of itself.
const FIRM: [&str; 3] = ["Immutable", "only upwards", "cannot shrink"];

fn is_firm(field: &Value) -> bool {
    field["description"].as_str().is_some_and(|text| FIRM.iter().any(|word| text.contains(word)))
}

/// The fields that a rule compares with what they were.
fn guarded(root: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut visit = |path: &str, field: &Value| {
        let rules = field.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
        let transitions = rules.filter(|rule| rule["rule"].as_str().is_some_and(|rule| rule.contains("oldSelf")));
        found.extend(transitions.map(|rule| format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default())));
    };
    visit("", root);
    each_field("", root, &mut visit);
    found
}

/// `kubectl explain` would promise what nobody keeps, or leave out what somebody will run into.
#[test]
fn a_field_says_that_it_cannot_change_exactly_when_a_rule_keeps_it() {
    for (kind, root) in roots() {
        let (guarded, mut firm) = (guarded(&root), BTreeSet::new());
        each_field("", &root, &mut |path, field| firm.extend(is_firm(field).then(|| path.to_owned())));
        let below = |path: &str, other: &str| path == other || path.starts_with(&format!("{other}."));
        for path in &firm {
            let kept = guarded.iter().any(|rule| below(path, rule) || below(rule, path));
            assert!(kept, "{kind}{path} says that it cannot change, and no rule keeps it");
        }
        for rule in &guarded {
            assert!(
                firm.iter().any(|path| below(path, rule) || below(rule, path)),
                "{kind}{rule} does not say it cannot change"
            );
        }
    }
}

/// `kubectl explain` shows descriptions, and none of the rules.
#[test]
fn the_limits_of_numbers_are_in_their_descriptions() {
    let limits = |definition: &_, field: &str, limits: [&str; 2]| {
        let schema = serde_json::to_value(definition).unwrap();
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let text = schema.pointer(&format!("{spec}/{field}/description")).and_then(|text| text.as_str()).unwrap();
        assert!(limits.iter().all(|limit| text.contains(limit)), "{field}: {text}");
    };
    let cluster = api::definition::valkey_cluster();
    limits(&cluster, "masterCount", ["At least 3", "not more than 1000 pods"]);
    limits(&cluster, "replicasPerMaster", ["from 0", "to 5"]);
    let definitions = api::definition::all();
    let authority = definitions.iter().find(|it| it.spec.names.kind == "ValkeyCA").unwrap();
    limits(authority, "validForDays", ["from 30", "to 36500"]);
}

/// What people may have written before: dropped in silence, they would be waited for.
#[test]
fn every_field_that_is_refused_is_declared_and_says_so() {
    let definitions = api::definition::all();
    let refused = |kind: &str, fields: &[RefusedField]| {
        let definition = definitions.iter().find(|it| it.spec.names.kind == kind).unwrap();
        let schema = serde_json::to_value(definition).unwrap();
        for field in fields {
            let path = field.path.join("/properties/");
            let path = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{path}");
            let text = schema.pointer(&format!("{path}/description")).and_then(|text| text.as_str()).unwrap();
            assert!(text.starts_with("Refused: "), "{kind} {path}: {text}");
        }
    };
    refused("ValkeyCluster", OF_CLUSTER);
    refused("ValkeyCA", OF_AUTHORITY);
}
