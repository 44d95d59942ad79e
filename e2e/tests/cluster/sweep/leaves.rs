//! The table of fields and values, and what the definition says there must be in it.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    #[serde(rename = "field")]
    pub path: String,
    #[serde(default)]
    pub fixed: bool,
    #[serde(default)]
    pub bound: bool,
    #[serde(default)]
    pub brief: bool,
    pub names: Option<String>,
    pub good: Vec<Value>,
    pub bad: Vec<Value>,
}

impl Field {
    /// Whether a refusal says which field it is about.
    pub fn is_named_in(&self, message: &str) -> bool {
        let last = self.path.rsplit('.').next().unwrap_or(&self.path);
        message.contains(last) || self.names.as_ref().is_some_and(|names| message.contains(names))
    }

    /// The spec with this value in the field; without one the field is taken out, and what was only there for it.
    pub fn put(&self, spec: &Value, value: Option<&Value>) -> Value {
        let path: Vec<&str> = self.path.split('.').collect();
        put(spec, &path, value).unwrap_or_else(|| json!({}))
    }
}

fn put(spec: &Value, path: &[&str], value: Option<&Value>) -> Option<Value> {
    let Some((first, rest)) = path.split_first() else { return value.cloned() };
    let mut map = spec.as_object().cloned().unwrap_or_default();
    match put(map.get(*first).unwrap_or(&Value::Null), rest, value) {
        Some(inner) => drop(map.insert((*first).to_owned(), inner)),
        None => drop(map.remove(*first)),
    }
    (!map.is_empty()).then_some(Value::Object(map))
}

pub fn fields() -> Result<Vec<Field>> {
    serde_yaml_ng::from_str(include_str!("leaves.yaml")).context("read the table of fields")
}

/// The leaves of a schema that may have a value: `a.b`, `list[].c`, `map[*]`.
fn leaves(path: &str, schema: &Value) -> Vec<String> {
    if is_refused(schema) {
        return Vec::new();
    }
    let below = |more: &str, inner: &Value| leaves(&format!("{path}{more}"), inner);
    match (schema.get("properties").and_then(Value::as_object), schema.get("items"), schema.get("additionalProperties"))
    {
        (Some(properties), ..) => {
            let dot = if path.is_empty() { "" } else { "." };
            properties.iter().flat_map(|(name, inner)| below(&format!("{dot}{name}"), inner)).collect()
        }
        (_, Some(items), _) => below("[]", items),
        (.., Some(entries)) if entries.is_object() => below("[*]", entries),
        _ => vec![path.to_owned()],
    }
}

/// It is declared to be refused with what to write instead: no value of it is good.
fn is_refused(schema: &Value) -> bool {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    rules.into_iter().flatten().any(|rule| rule["rule"] == "false")
}

/// The same of a value, by the schema that it is for.
fn touched(path: &str, schema: &Value, value: &Value, found: &mut BTreeSet<String>) {
    let part = |name: &str| schema.get(name);
    match value {
        Value::Object(map) if part("properties").is_some() => {
            let dot = if path.is_empty() { "" } else { "." };
            for (name, inner) in map {
                let schema = &schema["properties"][name];
                touched(&format!("{path}{dot}{name}"), schema, inner, found);
            }
        }
        Value::Object(map) if part("additionalProperties").is_some_and(Value::is_object) => {
            map.values()
                .for_each(|inner| touched(&format!("{path}[*]"), &schema["additionalProperties"], inner, found));
        }
        Value::Array(list) if part("items").is_some() => {
            list.iter().for_each(|inner| touched(&format!("{path}[]"), &schema["items"], inner, found));
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

#[test]
fn every_leaf_of_the_definition_is_in_the_table_with_good_and_bad_values() {
    let definition = serde_json::to_value(api::definition::valkey_cluster()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let (mut found, empty) = (BTreeSet::new(), Value::Object(Map::new()));
    for field in fields().unwrap() {
        assert!(!field.good.is_empty() && !field.bad.is_empty(), "{} lacks values", field.path);
        for value in &field.good {
            touched("", schema, &field.put(&empty, Some(value)), &mut found);
        }
    }
    let missing: Vec<String> = leaves("", schema).into_iter().filter(|leaf| !found.contains(leaf)).collect();
    assert!(missing.is_empty(), "leaves without a good value: {missing:?}");
}

#[test]
fn a_field_is_put_and_taken_out_with_what_was_only_there_for_it() {
    let field: Field = serde_json::from_value(json!({"field": "a.b", "good": [], "bad": []})).unwrap();
    let spec = field.put(&json!({"c": 1}), Some(&json!(2)));
    assert_eq!(spec, json!({"a": {"b": 2}, "c": 1}));
    assert_eq!(field.put(&spec, None), json!({"c": 1}));
    assert!(field.is_named_in("a.b must be one") && !field.is_named_in("no such thing"));
}
