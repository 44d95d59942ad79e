//! The definitions of the certificate resources: every field is documented, and the rules refuse what
//! they should, by a table and with an evaluator of their own instead of an API server.

use anyhow::{Context, Result};
use api::certificates::{OperatorMtls, ValkeyCASpec, ValkeyCertificateBindingSpec, ValkeyCertificateBundleSpec};
use kube_core::cel::Validator;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

#[test]
fn every_field_is_documented_and_the_definition_is_marked_as_ours() {
    for definition in api::definition::certificates() {
        let definition = serde_json::to_value(definition).unwrap();
        let mut missing = Vec::new();
        undocumented("", &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut missing);
        assert!(missing.is_empty(), "without a description: {missing:?}");
        assert!(definition["metadata"]["annotations"]["valkey.io/owner"] == "valkey-operator");
        assert!(definition["spec"]["scope"] == "Namespaced");
    }
}

fn undocumented(path: &str, schema: &Value, missing: &mut Vec<String>) {
    if schema.get("description").is_none() {
        missing.push(path.to_owned());
    }
    for (name, child) in schema.get("properties").and_then(|p| p.as_object()).into_iter().flatten() {
        undocumented(&format!("{path}.{name}"), child, missing);
    }
    for (name, child) in schema.pointer("/items/properties").and_then(|p| p.as_object()).into_iter().flatten() {
        undocumented(&format!("{path}[].{name}"), child, missing);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    kind: String,
    before: Option<Value>,
    spec: Value,
    refused: Option<String>,
}

/// Reading and writing once fills in the defaults of the schema, as the API server does before it evaluates rules.
fn filled<T: DeserializeOwned + Serialize>(spec: &Value) -> Result<Value> {
    Ok(serde_json::to_value(serde_json::from_value::<T>(spec.clone())?)?)
}

fn object(kind: &str, spec: &Value) -> Result<Value> {
    let spec = match kind {
        "ValkeyCA" => filled::<ValkeyCASpec>(spec),
        "ValkeyCertificateBundle" => filled::<ValkeyCertificateBundleSpec>(spec),
        "ValkeyCertificateBinding" => filled::<ValkeyCertificateBindingSpec>(spec),
        "OperatorMtls" => filled::<OperatorMtls>(spec),
        other => anyhow::bail!("there is no kind {other}"),
    }?;
    Ok(json!({ "apiVersion": "valkey.io/v1alpha1", "kind": kind, "metadata": { "name": "try" }, "spec": spec }))
}

/// The field operatorMtls of a ValkeyCluster is looked at by itself, in the place of a spec.
fn schema_of(kind: &str) -> Result<Value> {
    if kind == "OperatorMtls" {
        let schema = kube_core::schema::StructuralSchemaRewriter;
        let mut settings = schemars::generate::SchemaSettings::openapi3();
        settings.inline_subschemas = true;
        settings.transforms.push(Box::new(schema));
        let spec = settings.into_generator().into_root_schema_for::<OperatorMtls>();
        return Ok(json!({ "type": "object", "properties": { "spec": spec } }));
    }
    let definitions = api::definition::certificates();
    let definition =
        definitions.iter().find(|definition| definition.spec.names.kind == kind).context("no such kind")?;
    let definition = serde_json::to_value(definition)?;
    definition.pointer("/spec/versions/0/schema/openAPIV3Schema").cloned().context("no schema")
}

/// What the rules say against the case; empty when nothing.
fn objections(case: &Case) -> Result<String> {
    let old = case.before.as_ref().map(|spec| object(&case.kind, spec)).transpose()?;
    let new = object(&case.kind, &case.spec)?;
    let verdict = Validator::new().validate(&schema_of(&case.kind)?, &new, old.as_ref());
    Ok(verdict.err().map(|errors| errors.to_string()).unwrap_or_default())
}

#[test]
fn each_case_is_accepted_or_refused_as_the_table_says() {
    let cases: Vec<Case> = serde_yaml_ng::from_str(include_str!("certificates.yaml")).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let found = objections(case).unwrap_or_else(|error| panic!("{}: {error:#}", case.case));
        let right = case.refused.as_ref().map_or(found.is_empty(), |part| found.contains(part));
        if !right {
            wrong.push(format!("{}: {found}", case.case));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
