//! The user and groups the pods run as. Pure.

use super::effective::built_in::VALKEY_ID;
use super::rules::rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The user and groups all containers of a pod run as. Immutable, because the files on the volumes belong to them. An empty one, {},
/// leaves all ids to the platform, as OpenShift wants it; elsewhere the image must then name a user that is not root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityContext {
    /// User id, not root. Default: 999.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = id_rules("runAsUser")))]
    pub run_as_user: Option<i64>,
    /// Group id, not root. Default: 999.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = id_rules("runAsGroup")))]
    pub run_as_group: Option<i64>,
    /// Group that owns the volumes, not root. Default: 999.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = id_rules("fsGroup")))]
    pub fs_group: Option<i64>,
}

fn id_rules(field: &str) -> Value {
    json!([rule(
        "self >= 1 && self <= 2147483647",
        &format!(
            "securityContext.{field} must be from 1 to 2147483647, because the pods never run as root: choose another id"
        )
    )])
}

/// Compares the ids with the built-in ones in place of those left out: writing those down is no change, and writing others is. So is
/// leaving them to the platform, or no longer. A rule of the field itself would not be asked when the field is added or removed.
pub fn unchanged() -> String {
    const FIELDS: [&str; 3] = ["runAsUser", "runAsGroup", "fsGroup"];
    let platforms = |object: &str| {
        let given = FIELDS.map(|field| format!("has({object}.securityContext.{field})")).join(" || ");
        format!("(has({object}.securityContext) && !({given}))")
    };
    let id = |object: &str, field: &str| {
        let context = format!("{object}.securityContext");
        format!("(has({context}) && has({context}.{field}) ? {context}.{field} : {VALKEY_ID})")
    };
    let same = |field: &str| format!("{} == {}", id("self", field), id("oldSelf", field));
    format!("{} == {} && {}", platforms("self"), platforms("oldSelf"), FIELDS.map(same).join(" && "))
}
