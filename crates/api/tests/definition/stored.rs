//! What another version has stored or still serves: an object of the first release is read whole, and what is written today is taken
//! by the first release's definitions.

use super::growth::released;
use api::certificates::{AuthoritySource, ValkeyCA};
use api::cluster::{Phase, ValkeyCluster};
use api::stored::Stored;
use serde_json::{Value, json};

const FIRST: &str = "0.1.0";
const CLUSTER: &str = include_str!("cluster-0.1.0.yaml");
const AUTHORITY: &str = include_str!("authority-0.1.0.yaml");

/// The schema of a kind as it was released.
fn schema(version: &str, name: &str) -> Value {
    released()[version][name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// What an API server with this schema says against a value, but for rules and patterns, of which a status has none. A field that the
/// schema does not know is no objection: see `known` of the operator's write.
fn objections(place: &str, schema: &Value, value: &Value) -> Vec<String> {
    let no = |what: &str| vec![format!("{place}: {what}: {value}")];
    if value.is_null() {
        return if schema["nullable"] == true { Vec::new() } else { no("null") };
    }
    let fits = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    if !fits {
        return no("another type");
    }
    let longer = |bound: &str, size: usize| schema[bound].as_u64().is_some_and(|most| size as u64 > most);
    let mut found = Vec::new();
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        found.extend(no("no word of the enum"));
    }
    if value.as_array().is_some_and(|list| longer("maxItems", list.len()))
        || value.as_str().is_some_and(|text| longer("maxLength", text.chars().count()))
        || value.as_object().is_some_and(|map| longer("maxProperties", map.len()))
    {
        found.extend(no("too long"));
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    found.extend(required.filter(|name| value.get(name).is_none()).flat_map(|name| no(&format!("without {name}"))));
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(objections(&format!("{place}[{index}]"), &schema["items"], item));
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let inner =
            [&schema["properties"][name], &schema["additionalProperties"]].into_iter().find(|it| it.is_object());
        found.extend(inner.map(|inner| objections(&format!("{place}.{name}"), inner, field)).unwrap_or_default());
    }
    found
}

/// Every field that is in the value has to be in the schema too: what a test says of an older version was really of that version.
fn unknown(place: &str, schema: &Value, value: &Value) -> Vec<String> {
    let items =
        value.as_array().into_iter().flatten().map(|item| unknown(&format!("{place}[]"), &schema["items"], item));
    let fields = value.as_object().into_iter().flatten().map(|(name, field)| {
        let place = format!("{place}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (inner, _) if inner.is_object() => unknown(&place, inner, field),
            (_, Value::Object(_)) => Vec::new(),
            _ if schema["properties"].is_object() => vec![place],
            _ => Vec::new(),
        }
    });
    items.chain(fields).flatten().collect()
}

/// It is what that version stored, and today's types read all of it and write the same again.
fn is_read_whole<K>(stored: &str, name: &str)
where
    K: kube_core::object::HasStatus + kube_core::Resource + serde::Serialize,
    Stored<K>: serde::de::DeserializeOwned,
{
    let object: Value = serde_yaml_ng::from_str(stored).unwrap();
    let schema = schema(FIRST, name);
    for part in ["spec", "status"] {
        assert_eq!(unknown(part, &schema["properties"][part], &object[part]), [""; 0]);
        assert_eq!(objections(part, &schema["properties"][part], &object[part]), [""; 0]);
    }
    let Stored(read) = serde_json::from_value::<Stored<K>>(object.clone()).unwrap();
    let again = serde_json::to_value(read.map_err(|unreadable| unreadable.error).unwrap()).unwrap();
    assert_eq!((&again["spec"], &again["status"]), (&object["spec"], &object["status"]));
}

#[test]
fn objects_of_the_first_release_are_read_whole() {
    is_read_whole::<ValkeyCluster>(CLUSTER, "valkeyclusters.valkey.io");
    is_read_whole::<ValkeyCA>(AUTHORITY, "valkeycas.valkey.io");
}

/// A word that the first release's closed enum does not have would make its API server refuse the whole status.
#[test]
fn words_of_a_status_are_taken_by_the_first_release() {
    let status = |name: &str| schema(FIRST, name)["properties"]["status"].clone();
    for phase in Phase::ALL {
        assert_eq!(objections("", &status("valkeyclusters.valkey.io"), &json!({ "phase": phase.as_str() })), [""; 0]);
    }
    for source in AuthoritySource::ALL {
        assert_eq!(objections("", &status("valkeycas.valkey.io"), &json!({ "source": source.as_str() })), [""; 0]);
    }
}

/// Every list at its bound, every text, and no field left out: what is new may be dropped, the rest has to be taken.
#[test]
fn a_status_as_large_as_it_gets_is_taken_by_every_release() {
    for (version, definitions) in released() {
        for definition in api::definition::all() {
            let name = definition.metadata.name.clone().unwrap();
            let Some(before) = definitions.get(&name) else { continue };
            let now = serde_json::to_value(&definition).unwrap();
            let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status";
            let largest = largest(now.pointer(status).unwrap());
            let found = objections("status", before.pointer(status).unwrap(), &largest);
            // Words are looked at above; here they are any.
            let found: Vec<String> = found.into_iter().filter(|it| !it.contains("no word of the enum")).collect();
            assert!(found.is_empty(), "{version} {name}: {found:#?}");
        }
    }
}

/// A value that a schema takes, with every field and as many entries as may be.
fn largest(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(name, field)| (name.clone(), largest(field))).collect())
        }
        Some("array") => {
            // More than a thousand nobody has; the bound of shards is that of slots.
            let most = usize::try_from(schema["maxItems"].as_u64().unwrap().min(1000)).unwrap();
            Value::Array(vec![largest(&schema["items"]); most])
        }
        Some("integer") => json!(7),
        Some("boolean") => json!(true),
        Some("string") if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        _ => json!("any"),
    }
}

#[test]
fn every_list_of_a_status_is_bounded_and_says_who_owns_its_entries_and_no_word_is_closed() {
    for definition in api::definition::all() {
        let definition = serde_json::to_value(&definition).unwrap();
        let status = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/status").unwrap();
        let mut wrong = Vec::new();
        open_and_bounded("status", status, &mut wrong);
        assert!(wrong.is_empty(), "{}: {wrong:#?}", definition["metadata"]["name"]);
    }
}

fn open_and_bounded(place: &str, schema: &Value, wrong: &mut Vec<String>) {
    if schema.get("enum").is_some() || schema.get("pattern").is_some() {
        wrong.push(format!("{place} is closed"));
    }
    if schema["type"] == "array" && (!schema["maxItems"].is_u64() || !schema["x-kubernetes-list-type"].is_string()) {
        wrong.push(format!("{place} has no bound or no list type"));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        open_and_bounded(&format!("{place}.{name}"), field, wrong);
    }
    if schema["items"].is_object() {
        open_and_bounded(&format!("{place}[]"), &schema["items"], wrong);
    }
}
