//! What users say of the Services and the ServiceAccount. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The Service for clients, named as the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientService {
    /// Annotations of the Service that clients connect to, for example for a DNS controller. Changing them restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::metadata_rules::annotations")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// A Service that leads to the replicas only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadService {
    /// Whether there is a Service <name>-read for clients that only read. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Annotations of that Service. Changing them restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::metadata_rules::annotations")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The ServiceAccount of the pods, named <name>-valkey: without rights, and its token for the API server is not mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodServiceAccount {
    /// Annotations of the ServiceAccount, for example the role of a cloud provider. Changing them restarts nothing; what a webhook
    /// makes of them shows in pods that are made afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::metadata_rules::annotations")]
    pub annotations: Option<BTreeMap<String, String>>,
}
