//! Environment variables of the valkey container. Pure.

use super::metadata_rules::NOT_KEPT;
use super::rules::{literals, rule};
use crate::names::environment;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

const MOST_VARIABLES: usize = 64;
const LONGEST_VALUE: usize = 4096;

/// The type is Kubernetes' own, of which the sources are offered that every supported Kubernetes knows.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MOST_VARIABLES,
        "items": variable(),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    })
}

/// Whether it is for us to set, or without any effect.
pub fn is_own(name: &str) -> bool {
    environment::OWN.contains(&name) || name == environment::ENTRY_POINT_FLAGS
}

fn variable() -> Value {
    json!({
        "type": "object",
        "description": "One variable: a name, and a value or where to take it from.",
        "required": ["name"],
        "properties": {
            "name": {
                "type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[-._a-zA-Z][-._a-zA-Z0-9]*$",
                "description": "Its name: letters, digits, '-', '_' and '.', no digit first.",
                "x-kubernetes-validations": name_rules(),
            },
            "value": {
                "type": "string", "maxLength": LONGEST_VALUE,
                "description": "Its value. Everybody who may read the cluster or its pods reads it: a secret belongs into valueFrom.secretKeyRef.",
                "x-kubernetes-validations": [rule(
                    &format!("!self.matches('{NOT_KEPT}')"),
                    "env holds a value with a character that the API server does not keep: take out U+007F to U+009F, U+2028 and U+2029",
                )],
            },
            "valueFrom": source(),
        },
        "x-kubernetes-validations": [rule(
            "!has(self.valueFrom) || !has(self.value)",
            "env: a variable has both value and valueFrom: take one of them away",
        )],
    })
}

fn name_rules() -> Value {
    json!([
        rule(
            &format!("!(self in {})", literals(environment::OWN)),
            "env must not hold a variable that the operator uses itself: choose another name",
        ),
        rule(
            &format!("self != '{}'", environment::ENTRY_POINT_FLAGS),
            "env: VALKEY_EXTRA_FLAGS is for the entry point of Valkey's image, which does not run here: set parameters in spec.config",
        ),
    ])
}

fn source() -> Value {
    let key_of = |description: &str, what: &str| {
        json!({
            "type": "object",
            "description": description,
            "required": ["name", "key"],
            "properties": {
                "name": { "type": "string", "minLength": 1, "maxLength": 253, "description": format!("Name of the {what}, in the cluster's namespace.") },
                "key": { "type": "string", "minLength": 1, "maxLength": 253, "description": format!("Key in the {what}.") },
                "optional": { "type": "boolean", "description": format!("Whether a pod starts without it when {what} or key are missing.") },
            },
        })
    };
    json!({
        "type": "object",
        "description": "Where the value is taken from when the container starts: one of these.",
        "properties": {
            "secretKeyRef": key_of("A key of a Secret. The operator never reads it.", "Secret"),
            "configMapKeyRef": key_of("A key of a ConfigMap.", "ConfigMap"),
            "fieldRef": {
                "type": "object",
                "description": "A field of the pod.",
                "required": ["fieldPath"],
                "properties": {
                    "apiVersion": { "type": "string", "maxLength": 63, "description": "Version of the path. Left out, v1." },
                    "fieldPath": { "type": "string", "minLength": 1, "maxLength": 253, "description": "The field, for example spec.nodeName." },
                },
            },
            "resourceFieldRef": {
                "type": "object",
                "description": "A request or limit of a container of the pod.",
                "required": ["resource"],
                "properties": {
                    "containerName": { "type": "string", "maxLength": 63, "description": "The container. Left out, valkey." },
                    "resource": { "type": "string", "minLength": 1, "maxLength": 253, "description": "Which, for example limits.memory." },
                    "divisor": { "x-kubernetes-int-or-string": true, "description": "The unit it is given in, for example 1Mi. Left out, 1." },
                },
            },
        },
        "x-kubernetes-validations": [rule(
            "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef), has(self.resourceFieldRef)].exists_one(given, given)",
            "env: valueFrom needs exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef",
        )],
    })
}
