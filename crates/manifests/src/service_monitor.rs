//! The ServiceMonitor of the Prometheus operator, a kind that may not exist in a cluster and has no Rust type here. Pure.

use crate::metadata;
use crate::validated::ValidatedCluster;
use api::names::{self, port};
use kube_core::{DynamicObject, TypeMeta};
use serde_json::json;

pub fn service_monitor(cluster: &ValidatedCluster) -> Option<DynamicObject> {
    let interval = cluster.exporter.as_ref()?.scrape_interval.as_ref()?;
    let types = TypeMeta { api_version: "monitoring.coreos.com/v1".to_owned(), kind: "ServiceMonitor".to_owned() };
    let mut metadata = metadata::object(cluster, cluster.name.clone());
    let wanted = cluster.spec.exporter.service_monitor.labels.clone();
    metadata.labels.get_or_insert_default().extend(wanted);
    let spec = json!({
        "selector": { "matchLabels": names::selector(&cluster.name) },
        // Only the headless Service has a port of this name.
        "endpoints": [{ "port": port::EXPORTER_NAME, "path": "/metrics", "interval": format!("{}s", interval.as_seconds()) }],
    });
    Some(DynamicObject { types: Some(types), metadata, data: json!({ "spec": spec }) })
}
