//! Who may reach the pods. Pure.

use super::rules::rule;
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Bounds that keep the API server's cost estimate of the rules low; far above what a policy needs.
const MOST_PEERS: usize = 64;
const MOST_EXCEPTIONS: usize = 64;
/// The longest written form of an IPv6 network.
const LONGEST_NETWORK: usize = 43;

/// The NetworkPolicy of the pods. Whatever it says, the cluster's own pods reach each other, and the kubelet reaches its probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// Whether there is a NetworkPolicy. Without one, and without others of the namespace, everybody reaches every port of the pods,
    /// the cluster bus too. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Who reaches the client port, directly and through the Services. Left out, everybody; an empty list, the cluster's own pods
    /// alone. Other NetworkPolicies of the namespace can let in more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "clients")]
    pub from: Option<Vec<NetworkPolicyPeer>>,
    /// Who reaches the exporter's port, such as Prometheus. Left out, everybody; an empty list, nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scrapers")]
    pub metrics_from: Option<Vec<NetworkPolicyPeer>>,
}

fn clients(generator: &mut SchemaGenerator) -> Schema {
    peers("from", generator)
}

fn scrapers(generator: &mut SchemaGenerator) -> Schema {
    peers("metricsFrom", generator)
}

/// The type's own schema, with the rules that the API server has for a NetworkPolicy: the operator could not write it otherwise.
fn peers(field: &str, generator: &mut SchemaGenerator) -> Schema {
    let mut schema = <Option<Vec<NetworkPolicyPeer>>>::json_schema(generator).to_value();
    let mut set = |pointer: &str, key: &str, value: Value| {
        if let Some(part) = schema.pointer_mut(pointer).and_then(Value::as_object_mut) {
            part.insert(key.to_owned(), value);
        }
    };
    let block = "/items/properties/ipBlock";
    set("", "maxItems", json!(MOST_PEERS));
    set("", "x-kubernetes-validations", json!(peer_rules(field)));
    set(&format!("{block}/properties/cidr"), "maxLength", json!(LONGEST_NETWORK));
    set(&format!("{block}/properties/except"), "maxItems", json!(MOST_EXCEPTIONS));
    set(&format!("{block}/properties/except/items"), "maxLength", json!(LONGEST_NETWORK));
    set(block, "x-kubernetes-validations", json!(block_rules(field)));
    Schema::try_from(schema).unwrap_or_default()
}

fn peer_rules(field: &str) -> [Value; 2] {
    [
        rule(
            "self.all(peer, has(peer.ipBlock) || has(peer.namespaceSelector) || has(peer.podSelector))",
            &format!(
                "networkPolicy.{field} holds an entry without ipBlock, namespaceSelector and podSelector: give it one of them; \
                 namespaceSelector: {{}} is every pod, and leaving {field} out is everybody"
            ),
        ),
        rule(
            "self.all(peer, !has(peer.ipBlock) || !has(peer.namespaceSelector) && !has(peer.podSelector))",
            &format!("networkPolicy.{field} holds an entry with ipBlock and a selector: make two entries of it"),
        ),
    ]
}

fn block_rules(field: &str) -> [Value; 2] {
    [
        rule(
            "isCIDR(self.cidr) && (!has(self.except) || self.except.all(part, isCIDR(part)))",
            &format!("networkPolicy.{field}: cidr and except must be networks: write them like 10.0.0.0/8 or fd00::/8"),
        ),
        rule(
            "!isCIDR(self.cidr) || !has(self.except) || self.except.all(part, !isCIDR(part) || \
             part != self.cidr && cidr(self.cidr).containsCIDR(part))",
            &format!("networkPolicy.{field}: except must be a part of cidr, and not all of it: correct one of them"),
        ),
    ]
}
