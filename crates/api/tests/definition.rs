//! The committed CustomResourceDefinition is the one the types give.

#[test]
fn the_committed_definition_is_current() {
    let committed = include_str!("../crd/valkeyclusters.valkey.io.yaml");
    let current = api::yaml::to_string(&api::definition::valkey_cluster()).unwrap();
    assert!(committed == current, "crates/api/crd is out of date: run `make generate` and commit the result");
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

#[test]
fn fields_that_do_not_work_yet_are_not_in_the_schema() {
    let text = include_str!("../crd/valkeyclusters.valkey.io.yaml");
    for field in ["              tls:", "              acl:", "              operatorMtls:"] {
        assert!(!text.contains(field), "{field}");
    }
}
