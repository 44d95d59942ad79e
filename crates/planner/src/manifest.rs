//! The objects a cluster must have in its present shape, as JSON with our marks on them. Pure.

use crate::child::{ChildKey, ChildKind};
use crate::{digest, json};
use api::cluster::ValkeyCluster;
use api::cluster::effective::{self, Layers};
use api::names;
use api::names::annotation::{APPLIED_REVISION, POD_METADATA};
use manifests::{Objects, Shape, ValidatedCluster};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Manifests by key, in the order in which they are applied.
pub type Manifests = BTreeMap<ChildKey, Value>;

pub fn child_manifests(cluster: &ValidatedCluster, shape: &Shape) -> Manifests {
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
    } = manifests::build(cluster, shape);
    let mut all = Manifests::new();
    insert(&mut all, ChildKind::ServiceAccount, Some(service_account));
    insert(&mut all, ChildKind::ConfigMap, Some(config_map));
    insert(&mut all, ChildKind::NetworkPolicy, network_policy);
    insert(&mut all, ChildKind::PodDisruptionBudget, Some(disruption_budget));
    insert(&mut all, ChildKind::Service, Some(headless_service));
    insert(&mut all, ChildKind::Service, Some(client_service));
    insert(&mut all, ChildKind::Service, read_service);
    insert(&mut all, ChildKind::ServiceMonitor, service_monitor);
    insert(&mut all, ChildKind::StatefulSet, Some(stateful_set));
    all.iter_mut().for_each(|(key, manifest)| mark(key, manifest, cluster));
    all
}

fn insert(all: &mut Manifests, kind: ChildKind, object: Option<impl Serialize>) {
    let manifest = object.and_then(|object| serde_json::to_value(object).ok());
    let named = manifest.and_then(|manifest| Some((json::text(&manifest, "/metadata/name")?.to_owned(), manifest)));
    all.extend(named.map(|(name, manifest)| (ChildKey::new(kind, name), manifest)));
}

fn mark(key: &ChildKey, manifest: &mut Value, cluster: &ValidatedCluster) {
    if let (ChildKind::StatefulSet, Some(template)) = (key.kind, manifest.pointer_mut("/spec/template")) {
        annotate(template, POD_METADATA, metadata_keys(cluster));
    }
    let revision = digest::of_value(manifest);
    annotate(manifest, APPLIED_REVISION, revision);
}

fn annotate(object: &mut Value, key: &str, value: String) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.insert(key.to_owned(), Value::String(value));
    }
}

/// Which labels and annotations of a pod are the user's, so that one that is dropped from the spec can be told from a stranger's.
pub fn metadata_keys(cluster: &ValidatedCluster) -> String {
    let (labels, annotations) = (cluster.spec.labels.keys(), cluster.spec.annotations.keys());
    json!({ "labels": labels.collect::<Vec<_>>(), "annotations": annotations.collect::<Vec<_>>() }).to_string()
}

/// Every object the spec may ask for, valid or not: what has to be looked for before planning.
pub fn expected_keys(cluster: &ValkeyCluster) -> Vec<ChildKey> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let spec = effective::resolve(Layers::of(&cluster.spec)).spec;
    let exporter = &spec.exporter;
    let optional = [
        (spec.network_policy.enabled, ChildKey::new(ChildKind::NetworkPolicy, name)),
        (spec.read_service.enabled, ChildKey::new(ChildKind::Service, names::read_service(name))),
        (exporter.enabled && exporter.service_monitor.enabled, ChildKey::new(ChildKind::ServiceMonitor, name)),
    ];
    let always = [
        ChildKey::new(ChildKind::ServiceAccount, names::service_account(name)),
        ChildKey::new(ChildKind::ConfigMap, names::config_map(name)),
        ChildKey::new(ChildKind::Service, names::headless_service(name)),
        ChildKey::new(ChildKind::Service, name),
        ChildKey::new(ChildKind::PodDisruptionBudget, name),
        ChildKey::new(ChildKind::StatefulSet, name),
    ];
    always.into_iter().chain(optional.into_iter().filter(|(wanted, _)| *wanted).map(|(_, key)| key)).collect()
}
