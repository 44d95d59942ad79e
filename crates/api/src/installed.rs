//! What the definitions in a cluster do not know yet that this version does: they may be older. Pure.

use crate::definition::REVISION;
use crate::names::annotation;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// A definition that is older than this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Older {
    pub name: String,
    pub revision: u32,
    /// Paths of fields it does not know.
    pub unknown: Vec<String>,
}

/// None when it knows all that this version needs. A newer one does: definitions only grow.
pub fn older(installed: &CustomResourceDefinition, ours: &CustomResourceDefinition) -> Option<Older> {
    let revision = revision(installed);
    let mut unknown = Vec::new();
    if let (Some(installed), Some(ours)) = (schema(installed), schema(ours)) {
        unknown_fields("", installed, ours, &mut unknown);
    }
    let name = ours.metadata.name.clone().unwrap_or_default();
    (revision < REVISION || !unknown.is_empty()).then_some(Older { name, revision, unknown })
}

/// The first ones did not say.
fn revision(definition: &CustomResourceDefinition) -> u32 {
    let annotations = definition.metadata.annotations.as_ref();
    annotations.and_then(|map| map.get(annotation::SCHEMA_REVISION)?.parse().ok()).unwrap_or(1)
}

fn schema(definition: &CustomResourceDefinition) -> Option<&JSONSchemaProps> {
    let served = definition.spec.versions.iter().find(|version| version.name == crate::names::VERSION)?;
    served.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn unknown_fields(place: &str, installed: &JSONSchemaProps, ours: &JSONSchemaProps, unknown: &mut Vec<String>) {
    for (name, field) in ours.properties.iter().flatten() {
        let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        match installed.properties.as_ref().and_then(|known| known.get(name)) {
            Some(known) => unknown_fields(&place, known, field, unknown),
            None => unknown.push(place),
        }
    }
    if let (Some(known), Some(items)) = (items(installed), items(ours)) {
        unknown_fields(&format!("{place}[]"), known, items, unknown);
    }
}

fn items(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.items.as_ref()? {
        JSONSchemaPropsOrArray::Schema(items) => Some(items),
        JSONSchemaPropsOrArray::Schemas(_) => None,
    }
}

/// The statuses that the installed definitions take, where they do not take all that this version may write.
#[derive(Clone, Debug, Default)]
pub struct Installed {
    /// By kind.
    statuses: BTreeMap<String, JSONSchemaProps>,
}

impl Installed {
    pub fn limited_by(&mut self, installed: &CustomResourceDefinition) {
        let status = schema(installed).and_then(|root| root.properties.as_ref()?.get("status"));
        self.statuses.extend(status.map(|status| (installed.spec.names.kind.clone(), status.clone())));
    }

    /// The part of a status that its definition knows. Server-side apply refuses all of one that has a field more.
    pub fn known(&self, kind: &str, mut status: Value) -> Value {
        if let Some(schema) = self.statuses.get(kind) {
            keep_known(schema, &mut status);
        }
        status
    }
}

fn keep_known(schema: &JSONSchemaProps, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let free = schema.x_kubernetes_preserve_unknown_fields == Some(true);
            let others = match &schema.additional_properties {
                Some(JSONSchemaPropsOrBool::Schema(others)) => Some(others),
                _ => None,
            };
            let known = |name: &String| schema.properties.as_ref().and_then(|known| known.get(name));
            fields.retain(|name, _| free || others.is_some() || known(name).is_some());
            for (name, field) in fields {
                if let Some(inner) = known(name).or(others.map(|others| &**others)) {
                    keep_known(inner, field);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = items(schema) {
                list.iter_mut().for_each(|entry| keep_known(items, entry));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::valkey_cluster;
    use serde_json::json;

    /// As it is, but for fields that came later.
    fn without(paths: &[&str], revision: Option<&str>) -> CustomResourceDefinition {
        let mut definition = json!(valkey_cluster());
        let annotations = definition["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(annotation::SCHEMA_REVISION);
        annotations.extend(revision.map(|revision| (annotation::SCHEMA_REVISION.to_owned(), json!(revision))));
        for path in paths {
            let (parent, name) = path.rsplit_once('/').unwrap();
            let parent = format!("/spec/versions/0/schema/openAPIV3Schema/properties/{parent}");
            definition.pointer_mut(&parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
        }
        serde_json::from_value(definition).unwrap()
    }

    #[test]
    fn an_older_definition_is_known_by_its_revision_and_by_what_it_lacks() {
        let ours = valkey_cluster();
        assert_eq!(older(&ours, &ours), None);
        assert_eq!(older(&without(&[], Some("4711")), &ours), None, "a newer one knows all that we need");
        let first = older(&without(&["spec/properties/paused"], None), &ours).unwrap();
        assert_eq!((first.revision, first.unknown), (1, vec!["spec.paused".to_owned()]));
        let edited = without(&["status/properties/shards/items/properties/slots"], Some("4711"));
        assert_eq!(older(&edited, &ours).unwrap().unknown, ["status.shards[].slots"]);
    }

    #[test]
    fn a_status_is_written_without_what_its_definition_does_not_know() {
        let mut installed = Installed::default();
        let status = json!({ "phase": "Running", "plan": "wait", "shards": [{ "id": "a", "slots": "0-9", "nodes": [] }],
            "conditions": [{ "type": "Ready" }] });
        assert_eq!(installed.known("ValkeyCluster", status.clone()), status);
        let missing = ["status/properties/plan", "status/properties/shards/items/properties/slots"];
        installed.limited_by(&without(&missing, None));
        let expected =
            json!({ "phase": "Running", "shards": [{ "id": "a", "nodes": [] }], "conditions": [{ "type": "Ready" }] });
        assert_eq!(installed.known("ValkeyCluster", status.clone()), expected);
        assert_eq!(installed.known("ValkeyCA", status.clone()), status);
    }
}
