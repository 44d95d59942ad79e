//! The CEL rules of the CRD against a table of good and bad input, with an evaluator of its own instead of an API server.

use anyhow::Result;
use api::cluster::ValkeyClusterSpec;
use api::cluster::effective::built_in;
use kube_core::cel::Validator;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    name: Option<String>,
    before: Option<Value>,
    status: Option<Value>,
    spec: Value,
    refused: Option<String>,
    named: Option<String>,
}

/// Without nulls and with the one default of the schema, as the API server makes it before it evaluates rules.
fn object(case: &Case, spec: &Value) -> Result<Value> {
    let mut spec: ValkeyClusterSpec = serde_json::from_value(spec.clone())?;
    spec.master_count.get_or_insert(built_in::MASTER_COUNT);
    let name = case.name.as_deref().unwrap_or("try");
    let mut object = json!({ "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "metadata": { "name": name }, "spec": spec });
    if let Some((fields, status)) = object.as_object_mut().zip(case.status.as_ref()) {
        fields.insert("status".to_owned(), status.clone());
    }
    Ok(object)
}

/// What the rules say against the case; empty when nothing.
fn objections(case: &Case, schema: &Value) -> Result<String> {
    let old = case.before.as_ref().map(|spec| object(case, spec)).transpose()?;
    let new = object(case, &case.spec)?;
    let verdict = Validator::new().validate(schema, &new, old.as_ref());
    Ok(verdict.err().map(|errors| errors.to_string()).unwrap_or_default())
}

#[test]
fn each_case_is_accepted_or_refused_as_the_table_says() {
    let definition = serde_json::to_value(api::definition::valkey_cluster()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let cases: Vec<Case> = serde_yaml_ng::from_str(include_str!("admission.yaml")).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let found = objections(case, schema).unwrap();
        let right = match &case.refused {
            None => found.is_empty(),
            Some(part) => found.contains(part) && case.named.as_ref().is_none_or(|name| found.contains(name)),
        };
        if !right {
            wrong.push(format!("{}: {found}", case.case));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
