//! CPU and memory of a container. Pure. Several fields have this type: the API server names the one that a rule speaks of.

use super::rules::rule;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a container asks for and may use at most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = resources_rules()))]
pub struct Resources {
    /// What the scheduler sets aside, by resource (cpu, memory).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "requests_schema")]
    pub requests: Option<BTreeMap<String, Quantity>>,
    /// What the container may use at most, by resource (cpu, memory). Of the valkey container's memory,
    /// three quarters are Valkey's maxmemory, less of a small one, unless config says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "limits_schema")]
    pub limits: Option<BTreeMap<String, Quantity>>,
}

fn requests_schema(_: &mut SchemaGenerator) -> Schema {
    quantities("requests")
}

fn limits_schema(_: &mut SchemaGenerator) -> Schema {
    quantities("limits")
}

fn quantities(field: &str) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 8,
        "additionalProperties": { "x-kubernetes-int-or-string": true, "maxLength": 32 },
        "x-kubernetes-validations": [rule(
            "self.all(k, isQuantity(string(self[k])) && !quantity(string(self[k])).isLessThan(quantity('0')))",
            &format!("{field} holds a malformed or negative quantity: write a number with an optional suffix such as 500m, 2 or 1Gi"),
        )],
    })
}

fn resources_rules() -> Value {
    let comparable = "isQuantity(string(self.requests[k])) && isQuantity(string(self.limits[k]))";
    json!([rule(
        &format!(
            "!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) || !({comparable}) || \
             quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)"
        ),
        "requests must not be higher than limits: raise the limit or lower the request"
    )])
}
