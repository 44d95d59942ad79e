//! The objects a validated cluster must have, as JSON with our marks on them. Pure.

use crate::child::{ChildKey, ChildKind};
use crate::{digest, json};
use api::cluster::ValkeyCluster;
use api::names;
use api::names::annotation::{APPLIED_REVISION, POD_METADATA};
use manifests::{Objects, ValidatedCluster};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Manifests by key, in the order in which they are applied.
pub type Wanted = BTreeMap<ChildKey, Value>;

pub fn wanted(cluster: &ValidatedCluster) -> Wanted {
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
    } = manifests::build(cluster);
    let mut wanted = Wanted::new();
    insert(&mut wanted, ChildKind::ServiceAccount, Some(service_account));
    insert(&mut wanted, ChildKind::ConfigMap, Some(config_map));
    insert(&mut wanted, ChildKind::NetworkPolicy, Some(network_policy));
    insert(&mut wanted, ChildKind::PodDisruptionBudget, Some(disruption_budget));
    insert(&mut wanted, ChildKind::Service, Some(headless_service));
    insert(&mut wanted, ChildKind::Service, Some(client_service));
    insert(&mut wanted, ChildKind::Service, read_service);
    insert(&mut wanted, ChildKind::ServiceMonitor, service_monitor);
    insert(&mut wanted, ChildKind::StatefulSet, Some(stateful_set));
    wanted.iter_mut().for_each(|(key, manifest)| mark(key, manifest, cluster));
    wanted
}

fn insert(wanted: &mut Wanted, kind: ChildKind, object: Option<impl Serialize>) {
    let manifest = object.and_then(|object| serde_json::to_value(object).ok());
    let named = manifest.and_then(|manifest| Some((json::text(&manifest, "/metadata/name")?.to_owned(), manifest)));
    wanted.extend(named.map(|(name, manifest)| (ChildKey::new(kind, name), manifest)));
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
    let exporter = &cluster.spec.exporter;
    let optional = [
        (cluster.spec.read_service.enabled, ChildKey::new(ChildKind::Service, names::read_service(name))),
        (exporter.enabled && exporter.service_monitor.enabled, ChildKey::new(ChildKind::ServiceMonitor, name)),
    ];
    let always = [
        ChildKey::new(ChildKind::ServiceAccount, names::service_account(name)),
        ChildKey::new(ChildKind::ConfigMap, names::config_map(name)),
        ChildKey::new(ChildKind::Service, names::headless_service(name)),
        ChildKey::new(ChildKind::Service, name),
        ChildKey::new(ChildKind::NetworkPolicy, name),
        ChildKey::new(ChildKind::PodDisruptionBudget, name),
        ChildKey::new(ChildKind::StatefulSet, name),
    ];
    always.into_iter().chain(optional.into_iter().filter(|(wanted, _)| *wanted).map(|(_, key)| key)).collect()
}
