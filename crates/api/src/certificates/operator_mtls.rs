//! `spec.operatorMtls` of a ValkeyCluster: how long the identity of its sidecars lasts. Pure.

use crate::cluster::rules::rule;
use crate::duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How the certificates between the operator and this cluster's sidecars are renewed. The connection itself is always protected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorMtls {
    /// How long a sidecar's certificate is valid: a whole number with s, m, h, d, mo or y, from 30s to 1y. Shorter is safer. Default: 6h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = validity_rules()))]
    pub client_cert_validity: Option<String>,
    /// The part of its life, in percent, after which a certificate is replaced: from 66 to 80. Default: 66.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = percent_rules()))]
    pub rotate_before_percent: Option<i32>,
}

/// The least or most of each unit that stays between 30 seconds and a year.
const LIMITS: &str = "((self.endsWith('s') && int(self.replace('s', '')) >= 30 && int(self.replace('s', '')) <= 31536000) \
                      || (self.endsWith('m') && int(self.replace('m', '')) <= 525600) \
                      || (self.endsWith('h') && int(self.replace('h', '')) <= 8760) \
                      || (self.endsWith('d') && int(self.replace('d', '')) <= 365) \
                      || (self.endsWith('mo') && int(self.replace('mo', '')) <= 12) \
                      || self == '1y')";

fn validity_rules() -> Value {
    json!([rule(
        &format!("self.matches('{}') && {LIMITS}", duration::PATTERN),
        "clientCertValidity must be from 30s to 1y, a whole number with one of s, m, h, d, mo, y: write for example 6h or 90d"
    )])
}

fn percent_rules() -> Value {
    json!([rule(
        "self >= 66 && self <= 80",
        "rotateBeforePercent must be from 66 to 80: choose a number in that range"
    )])
}
