//! Cases, objects and golden files for the tests of this crate.

// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use anyhow::{Context, Result, anyhow, bail};
use api::cluster::effective::{self, Layers};
use api::cluster::{ValkeyCluster, ValkeyClusterSpec};
use api::node_settings::LineSettings;
use manifests::{Live, Objects, OperatorSettings, Problem, Shape, ValidatedCluster, build};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

pub fn cases() -> Result<BTreeMap<String, ValkeyClusterSpec>> {
    Ok(serde_yaml_ng::from_str(include_str!("../cases.yaml"))?)
}

pub fn case(name: &str) -> Result<ValkeyClusterSpec> {
    cases()?.remove(name).with_context(|| format!("no case {name}"))
}

#[allow(clippy::unwrap_used)] // a test that cannot go on fails
pub fn spec(fields: &Value) -> ValkeyClusterSpec {
    serde_json::from_value(fields.clone()).unwrap()
}

/// Lays one JSON object over another, field by field.
pub fn merge(below: &mut Value, above: &Value) {
    let (Some(fields), Some(others)) = (below.as_object_mut(), above.as_object()) else {
        return *below = above.clone();
    };
    for (name, value) in others {
        merge(fields.entry(name).or_insert(Value::Null), value);
    }
}

pub fn settings(sidecar_image: &str) -> OperatorSettings {
    let addresses = vec!["valkey-operator-line.valkey-operator-system.svc:8443".to_owned()];
    let operator_id = "spiffe://valkey-operator-system/valkey-operator".to_owned();
    let line = Some(LineSettings { addresses, operator_id, workload_api_socket: None });
    OperatorSettings { sidecar_image: sidecar_image.to_owned(), line }
}

pub fn cluster(spec: ValkeyClusterSpec) -> ValkeyCluster {
    let mut cluster = ValkeyCluster::new("valkey-poc", spec);
    cluster.metadata.namespace = Some("team-a".to_owned());
    cluster.metadata.uid = Some("00000000-0000-0000-0000-000000000001".to_owned());
    cluster
}

pub fn validated(spec: ValkeyClusterSpec, sidecar_image: &str, live: Option<&Live>) -> Result<ValidatedCluster> {
    let parsed = parse(&cluster(spec), &settings(sidecar_image), live);
    parsed.map_err(|problems| anyhow!("{problems:?}"))
}

/// In the shape that the spec asks for.
pub fn built(cluster: &ValidatedCluster) -> Objects {
    build(cluster, &Shape::of_spec(cluster))
}

/// With the defaults that are built in, or running.
pub fn parse(
    cluster: &ValkeyCluster,
    settings: &OperatorSettings,
    live: Option<&Live>,
) -> Result<ValidatedCluster, Vec<Problem>> {
    let running = live.map(Live::running);
    let effective = effective::resolve(Layers { running: running.as_ref(), ..Layers::of(&cluster.spec) });
    ValidatedCluster::parse(&cluster.metadata, effective, settings, live)
}

pub fn objects(spec: ValkeyClusterSpec) -> Result<Objects> {
    Ok(built(&validated(spec, "ghcr.io/valkey-operator/sidecar:v0.1.0", None)?))
}

/// All objects as they go to the API server, by a short name.
pub fn values(objects: Objects) -> Result<Vec<(&'static str, Value)>> {
    let Objects {
        service_account,
        config_map,
        network_policy,
        disruption_budget,
        headless_service,
        client_service,
        read_service,
        service_monitor,
        stateful_set,
    } = objects;
    let mut values = vec![
        ("ServiceAccount", serde_json::to_value(service_account)?),
        ("ConfigMap", serde_json::to_value(config_map)?),
    ];
    values.extend(network_policy.map(serde_json::to_value).transpose()?.map(|value| ("NetworkPolicy", value)));
    values.extend([
        ("PodDisruptionBudget", serde_json::to_value(disruption_budget)?),
        ("headless Service", serde_json::to_value(headless_service)?),
        ("client Service", serde_json::to_value(client_service)?),
        ("StatefulSet", serde_json::to_value(stateful_set)?),
    ]);
    values.extend(read_service.map(serde_json::to_value).transpose()?.map(|value| ("read Service", value)));
    values.extend(service_monitor.map(serde_json::to_value).transpose()?.map(|value| ("ServiceMonitor", value)));
    Ok(values)
}

/// Compares with the committed file, or rewrites it when UPDATE_GOLDEN is set.
pub fn golden(file: &str, current: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return Ok(std::fs::write(path, current)?);
    }
    let committed = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    if committed != current {
        let line = committed.lines().zip(current.lines()).position(|(old, new)| old != new).unwrap_or_default();
        bail!(
            "golden/{file} differs from line {} on: look at it with UPDATE_GOLDEN=1 cargo test -p manifests; git diff",
            line + 1
        );
    }
    Ok(())
}
