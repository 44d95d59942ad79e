//! The user and groups the pods run as. Pure.

use super::effective::built_in::VALKEY_ID;
use super::rules::{at, immutable, rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The user and groups all containers of a pod run as. Immutable, because the files on the volumes belong to them. An empty one, {},
/// leaves all ids to the platform, which must then give the pod a group and its containers one user, as OpenShift does. It can be taken
/// back until the cluster is formed.
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
/// leaving them to the platform, or no longer. A rule of the field itself would not be asked when the field is added or removed; one of
/// the root sees whether there are files yet: where the platform gives no ids, the cluster may never be formed.
pub fn rule_of_root() -> Value {
    let formed = "(has(oldSelf.status) && has(oldSelf.status.shards) && oldSelf.status.shards.size() > 0)";
    let taken_back = format!("{} && !{formed}", platforms("oldSelf"));
    at(
        ".spec.securityContext",
        immutable(
            &format!("{} || {taken_back}", unchanged()),
            "securityContext cannot change after creation, because the files on the volumes belong to the old ids: keep it, or create a new cluster and move the data there. An empty one can be taken back until the cluster is formed",
        ),
    )
}

const FIELDS: [&str; 3] = ["runAsUser", "runAsGroup", "fsGroup"];

fn unchanged() -> String {
    let id = |object: &str, field: &str| {
        let context = format!("{object}.spec.securityContext");
        format!("(has({context}) && has({context}.{field}) ? {context}.{field} : {VALKEY_ID})")
    };
    let same = |field: &str| format!("{} == {}", id("self", field), id("oldSelf", field));
    format!("({} == {} && {})", platforms("self"), platforms("oldSelf"), FIELDS.map(same).join(" && "))
}

/// That the ids are left to the platform.
fn platforms(object: &str) -> String {
    let context = format!("{object}.spec.securityContext");
    let given = FIELDS.map(|field| format!("has({context}.{field})")).join(" || ");
    format!("(has({context}) && !({given}))")
}
