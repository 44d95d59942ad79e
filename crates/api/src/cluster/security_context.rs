//! The user and groups the pods run as. Pure.

use super::rules::rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Ids in the public Valkey image.
const VALKEY_ID: i64 = 999;

/// The user and groups all containers of a pod run as. Immutable, because the files on the volumes belong to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityContext {
    /// User id, not root.
    #[serde(default = "valkey_id")]
    #[schemars(extend("x-kubernetes-validations" = id_rules("runAsUser")))]
    pub run_as_user: i64,
    /// Group id, not root.
    #[serde(default = "valkey_id")]
    #[schemars(extend("x-kubernetes-validations" = id_rules("runAsGroup")))]
    pub run_as_group: i64,
    /// Group that owns the volumes, not root.
    #[serde(default = "valkey_id")]
    #[schemars(extend("x-kubernetes-validations" = id_rules("fsGroup")))]
    pub fs_group: i64,
}

fn valkey_id() -> i64 {
    VALKEY_ID
}

impl Default for SecurityContext {
    fn default() -> Self {
        Self { run_as_user: VALKEY_ID, run_as_group: VALKEY_ID, fs_group: VALKEY_ID }
    }
}

fn id_rules(field: &str) -> Value {
    json!([rule(
        "self >= 1 && self <= 2147483647",
        &format!(
            "securityContext.{field} must be from 1 to 2147483647, because the pods never run as root: choose another id"
        )
    )])
}
