//! The committed CustomResourceDefinitions are those the types give.

use api::cluster::{OF_AUTHORITY, OF_CLUSTER, RefusedField};
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
fn every_field_of_the_spec_and_status_is_documented() {
    let definition = serde_json::to_value(api::definition::valkey_cluster()).unwrap();
    let root = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut missing = Vec::new();
    undocumented("", root, &mut missing);
    assert!(missing.is_empty(), "without a description: {missing:?}");
}

fn undocumented(path: &str, schema: &serde_json::Value, missing: &mut Vec<String>) {
    if schema.get("description").is_none() {
        missing.push(path.to_owned());
    }
    for (name, child) in schema.get("properties").and_then(|p| p.as_object()).into_iter().flatten() {
        undocumented(&format!("{path}.{name}"), child, missing);
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
