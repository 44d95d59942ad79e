//! Metrics for Prometheus. Pure.

use super::image::ExporterImage;
use super::resources::Resources;
use super::rules::rule;
use crate::duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A container beside each Valkey that exports its metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exporter {
    /// Whether the pods have the exporter container (port 9121, path /metrics). Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The exporter's image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ExporterImage>,
    /// CPU and memory of the exporter container. Left out, it asks for 10m CPU and 32Mi of memory and may use 128Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// A ServiceMonitor for the Prometheus operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<ServiceMonitor>,
}

/// Tells the Prometheus operator to scrape the exporters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitor {
    /// Whether a ServiceMonitor is made; needs the exporter and the CRDs of the Prometheus operator. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How often to scrape: a whole number with s, m, h, d, mo or y. Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = interval_rules()))]
    pub interval: Option<String>,
    /// Labels of the ServiceMonitor, if the Prometheus looks for certain ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::metadata_rules::labels")]
    pub labels: Option<BTreeMap<String, String>>,
}

fn interval_rules() -> Value {
    json!([rule(
        &format!("self.matches('{}')", duration::PATTERN),
        "exporter.serviceMonitor.interval must be a duration: a whole number with one of s, m, h, d, mo, y, for example 30s"
    )])
}
