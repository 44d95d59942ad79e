//! ValkeyCertificateBundle: the intermediate authority of one cluster. Made and owned together with the cluster. Pure.

// Each printer column is an attribute of its own kind; the lint compares them all.
// Moments in the future are columns of text: kubectl shows those of type date as an age, and the future as invalid.
#![allow(clippy::duplicated_attributes)]

use super::rules;
use crate::cluster::rules::{at, rule};
use crate::conditions::CONDITIONS;
use crate::readable;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An intermediate authority below the root, which signs for one cluster only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
#[kube(
    group = "valkey.io",
    version = "v1alpha1",
    kind = "ValkeyCertificateBundle",
    namespaced,
    crates(kube_core = "::kube_core"),
    status = "ValkeyCertificateBundleStatus",
    derive = "PartialEq",
    shortname = "vcbundle",
    category = "valkey",
    doc = "The intermediate authority of one cluster, owned by it.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Purpose", type_ = "string", json_path = ".spec.purpose"),
    printcolumn(name = "CA", type_ = "string", json_path = ".spec.caRef"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".spec.expiresAt"),
    printcolumn(name = "Next-Rotation", type_ = "string", json_path = ".status.nextRotation"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Plan", type_ = "string", priority = 1, json_path = ".status.plan")
)]
pub struct ValkeyCertificateBundleSpec {
    /// The ValkeyCA that signs this intermediate. It is in the operator's namespace.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = rules::object_name("caRef")))]
    pub ca_ref: String,
    /// What its certificates are for: mtls between operator and sidecars, or tls on the Valkey ports. Immutable.
    #[schemars(extend("x-kubernetes-validations" = purpose_rules()))]
    pub purpose: Purpose,
    /// The Secret with the intermediate's certificate (tls.crt) and the trusted roots (ca.crt), in this namespace.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = rules::object_name("certSecretRef")))]
    pub cert_secret_ref: String,
    /// The Secret with the intermediate's private key (tls.key), in the operator's namespace. No pod mounts it.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = rules::object_name("keySecretRef")))]
    pub key_secret_ref: String,
    /// When the intermediate was made. Written by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<Time>,
    /// When it ends. Written by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When it is replaced.
    #[serde(default)]
    pub rotation_policy: RotationPolicy,
}

/// What certificates are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Between the operator and the sidecars.
    Mtls,
    /// On the Valkey ports.
    Tls,
}

/// When an intermediate is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotationPolicy {
    /// Whether the operator replaces it in time. If not, the condition Ready tells when it ends.
    #[serde(default = "auto_rotate")]
    pub auto_rotate: bool,
    /// How many days before its end it is replaced; never in the first half of its life.
    #[serde(default = "renew_before_days")]
    #[schemars(extend("x-kubernetes-validations" = renew_before_rules()))]
    pub renew_before_days: i32,
}

/// What the operator last saw of the intermediate, and what it will do about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyCertificateBundleStatus {
    /// The generation of the spec this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// SHA-256 of the intermediate's certificate, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbprint: Option<String>,
    /// SHA-256 of the root that signed it, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_thumbprint: Option<String>,
    /// The identity its leaves have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spiffe_id: Option<String>,
    /// When it will be replaced; absent while that is under way, and without autoRotate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rotation: Option<Time>,
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

impl Default for RotationPolicy {
    fn default() -> Self {
        Self { auto_rotate: auto_rotate(), renew_before_days: renew_before_days() }
    }
}

fn auto_rotate() -> bool {
    true
}

fn renew_before_days() -> i32 {
    30
}

fn renew_before_rules() -> Value {
    json!([rule(
        "self >= 1 && self <= 3650",
        "renewBeforeDays must be from 1 to 3650: choose a number of days in that range, or set autoRotate to false"
    )])
}

fn purpose_rules() -> Value {
    json!([rules::unchanged("purpose", "create another bundle for the other purpose")])
}

fn spec_rules() -> Value {
    json!([
        at(".expiresAt", rules::ends_after_it_begins()),
        at(
            ".keySecretRef",
            rule(
                "self.keySecretRef != self.certSecretRef",
                "keySecretRef must be another Secret than certSecretRef, because pods read that one: name a Secret of its own for the key"
            )
        ),
    ])
}
