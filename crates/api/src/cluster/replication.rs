//! How primaries and their replicas work together. Pure.

use super::rules::rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How primaries and their replicas work together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replication {
    /// Send the data set to a new replica straight from memory instead of through a file on the primary's volume. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diskless_sync: Option<bool>,
    /// A primary refuses writes while fewer replicas than this are connected and in time.
    /// Default: 1 with two or more replicas per primary, otherwise 0, so that one pod may restart without stopping writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = count_rules()))]
    pub min_replicas_to_write: Option<i32>,
    /// Seconds of silence after which a replica no longer counts for minReplicasToWrite. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = lag_rules()))]
    pub min_replicas_max_lag: Option<i32>,
}

fn count_rules() -> Value {
    json!([rule("self >= 0", "replication.minReplicasToWrite must not be negative: 0 switches the check off")])
}

fn lag_rules() -> Value {
    json!([rule(
        "self >= 1 && self <= 3600",
        "replication.minReplicasMaxLag must be from 1 to 3600 seconds: choose a number in that range"
    )])
}
