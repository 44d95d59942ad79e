//! ValkeyCertificateBinding: the leaf certificates a cluster uses now, and those before them that somebody may still use. Pure;
//! bounded in size whatever the cluster's.

// Each printer column is an attribute of its own kind; the lint compares them all.
// Moments in the future are columns of text: kubectl shows those of type date as an age, and the future as invalid.
#![allow(clippy::duplicated_attributes)]

use super::bundle::Purpose;
use super::rules;
use crate::cluster::rules::at;
use crate::conditions::CONDITIONS;
use crate::readable;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The leaf certificates of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "valkey.io",
    version = "v1alpha1",
    kind = "ValkeyCertificateBinding",
    namespaced,
    crates(kube_core = "::kube_core"),
    status = "ValkeyCertificateBindingStatus",
    derive = "PartialEq",
    shortname = "vcbinding",
    category = "valkey",
    doc = "The leaf certificates a cluster uses now, owned by its ValkeyCertificateBundle.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef"),
    printcolumn(name = "Switched", type_ = "string", json_path = ".status.switched"),
    printcolumn(name = "Next-Rotation", type_ = "string", json_path = ".status.nextRotation"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Plan", type_ = "string", priority = 1, json_path = ".status.plan")
)]
pub struct ValkeyCertificateBindingSpec {
    /// The ValkeyCluster whose certificates these are. Immutable.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = cluster_rules()))]
    pub cluster_ref: String,
    /// The certificates in use: at most one for each purpose. Written by the operator.
    #[serde(default)]
    #[schemars(
        length(max = 2),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["purpose"])
    )]
    pub active: Vec<ActiveCertificate>,
    /// Certificates before those that a pod may still present. Each goes when nobody uses it any more, at the latest when it ends.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub deprecated: Vec<DeprecatedCertificate>,
}

/// A certificate in use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = lifetime_rules()))]
pub struct ActiveCertificate {
    /// What it is for.
    pub purpose: Purpose,
    /// The ValkeyCertificateBundle that signed it.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = rules::object_name("bundleRef")))]
    pub bundle_ref: String,
    /// The Secret that the pods mount: tls.crt, tls.key and ca.crt.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = rules::object_name("secretName")))]
    pub secret_name: String,
    /// SHA-256 of the certificate, in hexadecimal.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::thumbprint()))]
    pub thumbprint: String,
    /// When it was issued.
    pub issued_at: Time,
    /// When it ends.
    pub expires_at: Time,
    /// Whether every pod presents it by now. False while pods switch to it.
    #[serde(default = "active")]
    pub active: bool,
}

/// A certificate that was replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = lifetime_rules()))]
pub struct DeprecatedCertificate {
    /// What it was for.
    pub purpose: Purpose,
    /// SHA-256 of the certificate, in hexadecimal.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::thumbprint()))]
    pub thumbprint: String,
    /// When it was issued.
    pub issued_at: Time,
    /// When it ends.
    pub expires_at: Time,
}

/// What the operator last saw of the certificates, and what it will do about them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyCertificateBindingStatus {
    /// The generation of the spec this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the next certificate will be replaced; absent while that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rotation: Option<Time>,
    /// Pods that present the certificates in use, of all pods: "6/6".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched: Option<String>,
    /// Pods that still present an older one, or could not be asked; the first ten by name.
    #[serde(default)]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub waiting_for: Vec<String>,
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

fn active() -> bool {
    true
}

fn cluster_rules() -> Value {
    json!([rules::unchanged("clusterRef", "delete the binding, the operator makes the right one")])
}

fn lifetime_rules() -> Value {
    json!([at(".expiresAt", rules::ends_after_it_begins())])
}
