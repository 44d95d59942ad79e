//! How a CEL rule is written down, and the rules of the cluster as a whole. Pure; used by the schema of each field.
//! A message names the field and the way out, because it is all that the person at the keyboard sees.

use crate::names::NAME_LIMIT;
use serde_json::{Value, json};

pub fn rule(expression: &str, message: &str) -> Value {
    json!({ "rule": expression, "message": message })
}

/// `reason: FieldValueInvalid` is the default and repeats the value; this one does not.
pub fn forbidden(expression: &str, message: &str) -> Value {
    json!({ "rule": expression, "message": message, "reason": "FieldValueForbidden" })
}

/// For what may not change.
pub fn immutable(expression: &str, message: &str) -> Value {
    forbidden(expression, message)
}

/// The name of an object that nothing makes use of yet.
pub fn tls() -> Value {
    json!([forbidden(
        "false",
        "TLS for clients is not supported yet: leave tls out. The port is then plain, which the condition Secured tells: keep those away \
         who must not use it"
    )])
}

/// The name of an object that nothing makes use of yet.
pub fn acl() -> Value {
    json!([forbidden(
        "false",
        "users are not supported yet: leave acl out. Everybody who reaches the port may then do everything, which the condition Secured \
         tells: keep those away who must not use it"
    )])
}

/// A rule whose message is computed, so that it can name the offending keys.
pub fn explained(expression: &str, message: &str, message_expression: &str) -> Value {
    json!({ "rule": expression, "message": message, "messageExpression": message_expression })
}

/// The rule of an object, reported for one of its fields.
pub fn at(field: &str, mut rule: Value) -> Value {
    if let Some(rule) = rule.as_object_mut() {
        rule.insert("fieldPath".to_owned(), field.into());
    }
    rule
}

/// A list of CEL string literals. None of our names holds a quote.
pub fn literals<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("'{name}'")).collect();
    format!("[{}]", quoted.join(", "))
}

pub fn master_count() -> Value {
    json!([rule(
        "self >= 3",
        "masterCount must be at least 3, because fewer primaries cannot agree on a failover: set it to 3 or more"
    )])
}

/// What an object of Kubernetes may be called that is known by its name alone.
pub const OBJECT_NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

pub fn runtime_class() -> Value {
    json!([rule(
        &format!("self.matches('{OBJECT_NAME}')"),
        "runtimeClassName is the name of no RuntimeClass: write small letters, digits, '-' and '.'"
    )])
}

pub fn replicas_per_master() -> Value {
    json!([rule("self >= 0 && self <= 5", "replicasPerMaster must be from 0 to 5: choose a number in that range")])
}

/// Rules of the whole object.
pub fn root() -> Value {
    let mut rules = name_rules();
    rules.push(super::security_context::rule_of_root());
    Value::Array(rules)
}

fn name_rules() -> Vec<Value> {
    let limit = format!("self.metadata.name.size() <= {NAME_LIMIT}");
    let too_long = format!(
        "metadata.name must not be longer than {NAME_LIMIT} characters, because pods and labels are named after it: choose a shorter name"
    );
    vec![
        rule(&limit, &too_long),
        rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name must begin with a letter and hold only a-z, 0-9 and '-', because Services are named after it: choose another name",
        ),
    ]
}

/// What a sidecar takes at most, with what it writes into memory: with less, the kernel would end it in the middle of a hand-over.
pub const LEAST_SIDECAR_MEMORY: &str = "32Mi";

fn sidecar_memory() -> Value {
    let limit = "string(self.sidecarResources.limits['memory'])";
    at(
        ".sidecarResources",
        rule(
            &format!(
                "!has(self.sidecarResources) || !has(self.sidecarResources.limits) || !('memory' in self.sidecarResources.limits) || \
                 !isQuantity({limit}) || quantity({limit}).compareTo(quantity('{LEAST_SIDECAR_MEMORY}')) >= 0"
            ),
            &format!(
                "sidecarResources.limits.memory must be at least {LEAST_SIDECAR_MEMORY}, or the sidecar could be killed while it works: raise it"
            ),
        ),
    )
}

/// Rules across fields see only what the object itself says; the operator applies them to the spec with its defaults.
pub fn spec() -> Value {
    let mut rules = vec![
        at(
            ".masterCount",
            rule(
                "!has(self.masterCount) || !has(self.replicasPerMaster) || self.masterCount * (1 + self.replicasPerMaster) <= 1000",
                "masterCount * (1 + replicasPerMaster) must not be more than 1000 pods: lower one of them, or split the data over several clusters",
            ),
        ),
        at(
            ".replication.minReplicasToWrite",
            rule(
                "!has(self.replication) || !has(self.replication.minReplicasToWrite) || !has(self.replicasPerMaster) || self.replication.minReplicasToWrite <= self.replicasPerMaster",
                "replication.minReplicasToWrite must not be higher than replicasPerMaster, or no write could ever succeed: lower it or add replicas",
            ),
        ),
        sidecar_memory(),
        at(
            ".pvc",
            immutable(
                "has(self.pvc) == has(oldSelf.pvc)",
                "pvc cannot be added to or removed from an existing cluster: create a new cluster and move the data there",
            ),
        ),
    ];
    rules.extend(super::config_rules::version_rules());
    Value::Array(rules)
}
