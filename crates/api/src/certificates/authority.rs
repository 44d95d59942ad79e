//! ValkeyCA: the root from which all identities come. Made at install, in the operator's namespace: there lies the Secret with its
//! key, and who may change the root is exactly who may change the operator. A cluster-wide object would need rights that an operator
//! for one namespace does not have. Pure.

// Each printer column is an attribute of its own kind; the lint compares them all.
// Moments in the future are columns of text: kubectl shows those of type date as an age, and the future as invalid.
#![allow(clippy::duplicated_attributes)]

use super::rules;
use crate::cluster::rules::rule;
use crate::conditions::{CONDITIONS, names};
use crate::readable;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Most roots that are told of at once: one, or two while one follows the other, and some for somebody who changes them again and again.
pub const TRUSTED_ROOTS: usize = 8;

/// The root authority of the operator and of all clusters it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "valkey.io",
    version = "v1alpha1",
    kind = "ValkeyCA",
    plural = "valkeycas",
    namespaced,
    crates(kube_core = "::kube_core"),
    status = "ValkeyCAStatus",
    derive = "PartialEq",
    shortname = "vca",
    category = "valkey",
    doc = "The root authority from which operator and sidecars get their identities.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Source", type_ = "string", json_path = ".status.source"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".status.expiresAt"),
    printcolumn(name = "Next-Rotation", type_ = "string", json_path = ".status.nextRotation"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Plan", type_ = "string", priority = 1, json_path = ".status.plan")
)]
pub struct ValkeyCASpec {
    /// For people: what this root is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Where the certificate and its key are kept. Only Secret for now; SecretsStore is refused.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = secret_type_rules()))]
    pub secret_type: SecretType,
    /// The Secret with the root's certificate and key, in this namespace. If there is none, the operator makes a root and puts it
    /// there. If there is one that the operator did not make, it is your own root: tls.crt and tls.key (or ca.crt and ca.key),
    /// PEM, an authority with keyCertSign and room for an intermediate. To change to another root, name another Secret: the old one
    /// stays trusted until every sidecar has switched.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = rules::object_name("caCertSecretRef")))]
    pub ca_cert_secret_ref: String,
    /// How long a root that the operator makes is valid, from 30 to 36500 days. It is replaced in time. Your own root ends when it says.
    #[serde(default = "valid_for_days")]
    #[schemars(extend("x-kubernetes-validations" = valid_for_days_rules()))]
    pub valid_for_days: i32,
}

/// Where a secret is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SecretType {
    /// A Kubernetes Secret.
    #[default]
    Secret,
    /// A volume of the Secrets Store CSI driver.
    SecretsStore,
}

/// What the operator last saw of the root, and what it will do about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyCAStatus {
    /// The generation of the spec this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Who made the root that signs now: Operator, or Own for one that somebody else put into the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// SHA-256 of the certificate that signs now, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbprint: Option<String>,
    /// When the root that signs now was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<Time>,
    /// When the root that signs now ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When it will be replaced; absent while that is under way, and for your own root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rotation: Option<Time>,
    /// The roots that operator and sidecars trust: one, or the old and the new while one follows the other.
    #[serde(default, deserialize_with = "readable::entries")]
    #[schemars(length(max = TRUSTED_ROOTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub trusted: Vec<TrustedRoot>,
    /// What each replica of the operator trusts and shows. Each writes its own entry.
    #[serde(default, deserialize_with = "readable::entries", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub operators: Vec<OperatorReplica>,
    /// The answer to the annotation valkey.io/retire-now; absent without it.
    #[serde(default, deserialize_with = "readable::value", skip_serializing_if = "Option::is_none")]
    pub retire_now: Option<RetireNow>,
    /// Sidecars and operator replicas that a change of root waits for.
    #[serde(default)]
    pub waiting_for: i32,
    /// What the operator will do next, in words; empty when there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The state in detail; every type is always there.
    #[serde(default, deserialize_with = "readable::entries")]
    #[schemars(
        length(max = CONDITIONS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
}

names! {
    /// Who made a root.
    AuthoritySource {
        /// The operator.
        Operator,
        /// Somebody else, who put it into the Secret.
        Own,
    }
}

/// A root that is trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustedRoot {
    /// SHA-256 of its certificate, in hexadecimal.
    pub thumbprint: String,
    /// When it ends.
    pub expires_at: Time,
    /// The certificate itself, PEM. With it the root stays trusted even if every Secret is lost.
    #[serde(default)]
    #[schemars(length(max = 16384))]
    pub certificate: String,
}

/// What became of the wish that a root goes without waiting for anybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetireNow {
    /// The thumbprint that the annotation names.
    #[schemars(length(max = 128))]
    pub thumbprint: String,
    /// Trusted: it still is, and Rotating and plan say what goes on. InForce: it signs, so another root has to be named first, in
    /// caCertSecretRef. NotTrusted: nobody trusts it any more, or ever did.
    #[schemars(length(max = 64))]
    pub outcome: String,
}

/// One replica of the operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorReplica {
    /// Its pod.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// SHA-256 of the roots it trusts, in hexadecimal.
    #[serde(default)]
    #[schemars(length(max = TRUSTED_ROOTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub trusted_roots: Vec<String>,
    /// SHA-256 of the root that the certificate it shows leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presents: Option<String>,
}

fn valid_for_days() -> i32 {
    3650
}

fn valid_for_days_rules() -> Value {
    json!([rule(
        "self >= 30 && self <= 36500",
        "validForDays must be from 30 to 36500: choose a number of days in that range"
    )])
}

fn secret_type_rules() -> Value {
    json!([rule("self == 'Secret'", "secretType SecretsStore is not supported for the root yet: use Secret")])
}
