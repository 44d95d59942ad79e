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
    /// Whether the pods have the exporter container (port 9121, path /metrics).
    #[serde(default)]
    pub enabled: bool,
    /// The exporter's image.
    #[serde(default)]
    pub image: ExporterImage,
    /// CPU and memory of the exporter container.
    #[serde(default)]
    pub resources: Resources,
    /// A ServiceMonitor for the Prometheus operator.
    #[serde(default)]
    pub service_monitor: ServiceMonitor,
}

/// Tells the Prometheus operator to scrape the exporters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitor {
    /// Whether a ServiceMonitor is made; needs the exporter and the CRDs of the Prometheus operator.
    #[serde(default)]
    pub enabled: bool,
    /// How often to scrape: a whole number with s, m, h, d, mo or y.
    #[serde(default = "interval")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = interval_rules()))]
    pub interval: String,
    /// Labels of the ServiceMonitor, if the Prometheus looks for certain ones.
    #[serde(default)]
    #[schemars(schema_with = "super::metadata_rules::labels")]
    pub labels: BTreeMap<String, String>,
}

fn interval() -> String {
    "30s".to_owned()
}

impl Default for ServiceMonitor {
    fn default() -> Self {
        Self { enabled: false, interval: interval(), labels: BTreeMap::new() }
    }
}

fn interval_rules() -> Value {
    json!([rule(
        &format!("self.matches('{}')", duration::PATTERN),
        "exporter.serviceMonitor.interval must be a duration: a whole number with one of s, m, h, d, mo, y, for example 30s"
    )])
}
