//! Environment variables of the valkey container. Pure.

use super::metadata_rules::NOT_KEPT;
use super::rules::{OBJECT_NAME, literals, rule};
use crate::names::{container, environment};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

const MOST_VARIABLES: usize = 64;
const LONGEST_VALUE: usize = 4096;
/// What a pod may read of itself into its environment.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Quoted otherwise than usual, because it holds quotes.
const KEY_OF_METADATA: &str = r#""^metadata[.](labels|annotations)\\['([-a-zA-Z0-9.]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'\\]$""#;

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
                "description": "Its value. Everybody who may read the cluster or its pods reads it: a secret belongs in valueFrom.secretKeyRef.",
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
            "self != '.' && !self.startsWith('..')",
            "env holds a name that is '.' or begins with '..', which Kubernetes does not take: choose another name",
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
                "name": {
                    "type": "string", "minLength": 1, "maxLength": 253, "description": format!("Name of the {what}, in the cluster's namespace."),
                    "x-kubernetes-validations": [rule(
                        &format!("self.matches('{OBJECT_NAME}')"),
                        &format!("env: no {what} can have this name: write small letters, digits, '-' and '.'"),
                    )],
                },
                "key": {
                    "type": "string", "minLength": 1, "maxLength": 253, "description": format!("Key in the {what}."),
                    "x-kubernetes-validations": [rule(
                        "self.matches('^[-._a-zA-Z0-9]+$') && self != '.' && !self.startsWith('..')",
                        &format!("env: no {what} can have this key: write letters, digits, '-', '_' and '.', and not '..' first"),
                    )],
                },
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
            "fieldRef": field_of_pod(),
            "resourceFieldRef": resource_of_container(),
        },
        "x-kubernetes-validations": [rule(
            "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef), has(self.resourceFieldRef)].exists_one(given, given)",
            "env: valueFrom needs exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef",
        )],
    })
}

fn field_of_pod() -> Value {
    let fields = literals(FIELDS);
    json!({
        "type": "object",
        "description": "A field of the pod.",
        "required": ["fieldPath"],
        "properties": {
            "apiVersion": {
                "type": "string", "maxLength": 63, "description": "Version of the path. Left out, v1.",
                "x-kubernetes-validations": [rule("self in ['', 'v1']", "env: fieldRef.apiVersion must be v1: leave it out")],
            },
            "fieldPath": {
                "type": "string", "minLength": 1, "maxLength": 512, "description": "The field, for example spec.nodeName.",
                "x-kubernetes-validations": [rule(
                    &format!("self in {fields} || self.matches({KEY_OF_METADATA})"),
                    &format!("env: fieldRef.fieldPath must be one of {}, or metadata.labels['…'] or metadata.annotations['…'] with a key: correct it", FIELDS.join(", ")),
                )],
            },
        },
    })
}

fn resource_of_container() -> Value {
    json!({
        "type": "object",
        "description": "A request or limit of a container of the pod.",
        "required": ["resource"],
        "properties": {
            "containerName": {
                "type": "string", "maxLength": 63, "description": "The container. Left out, valkey.",
                "x-kubernetes-validations": [rule(
                    &format!("self in {}", literals(["", container::VALKEY, container::SIDECAR, container::EXPORTER])),
                    "env: resourceFieldRef.containerName must be valkey, sidecar or exporter: correct it, or leave it out for valkey",
                )],
            },
            "resource": {
                "type": "string", "minLength": 1, "maxLength": 253, "description": "Which, for example limits.memory.",
                "x-kubernetes-validations": [rule(
                    "self.matches('^(limits|requests)[.](cpu|memory|ephemeral-storage|hugepages-.+)$')",
                    "env: resourceFieldRef.resource must be limits. or requests. with cpu, memory, ephemeral-storage or hugepages-…, for example limits.memory: correct it",
                )],
            },
            "divisor": { "x-kubernetes-int-or-string": true, "maxLength": 32, "description": "The unit it is given in, for example 1Mi. Left out, 1." },
        },
        "x-kubernetes-validations": [divisor_rule()],
    })
}

/// Those that Kubernetes knows; 0 is as if left out.
fn divisor_rule() -> Value {
    const OF_CPU: [&str; 3] = ["0", "1", "1m"];
    const OF_BYTES: [&str; 14] =
        ["0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let divisor = "string(self.divisor)";
    let known = format!(
        "(self.resource.endsWith('.cpu') ? {divisor} in {} : {divisor} in {})",
        literals(OF_CPU),
        literals(OF_BYTES)
    );
    rule(
        &format!("!has(self.divisor) || {known}"),
        "env: resourceFieldRef.divisor must be 1 or 1m of cpu, and of everything else 1 with or without k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei: correct it, or leave it out for 1",
    )
}
