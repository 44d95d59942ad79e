//! Names, labels, annotations and owners of the objects. Pure; used by every kind.

use crate::validated::ValidatedCluster;
use crate::{node_settings, restart};
use api::names::{self, annotation, container, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use std::collections::BTreeMap;

/// Shown by kubectl when no container is named.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Metadata of an object that belongs to the cluster.
pub fn object(cluster: &ValidatedCluster, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(cluster.namespace.clone()),
        labels: Some(labels(cluster)),
        annotations: Some([belongs_to(cluster)].into()),
        owner_references: Some(vec![owner(cluster)]),
        ..ObjectMeta::default()
    }
}

/// The same, with annotations that the user wants on it.
pub fn annotated(cluster: &ValidatedCluster, name: String, annotations: &BTreeMap<String, String>) -> ObjectMeta {
    let mut metadata = object(cluster, name);
    let own = metadata.annotations.take().unwrap_or_default();
    metadata.annotations = Some(annotations.clone().into_iter().chain(own).collect());
    metadata
}

/// The labels of the pods. They change without a restart: whoever runs the pods keeps them so.
pub fn pod_labels(cluster: &ValidatedCluster) -> BTreeMap<String, String> {
    let mut labels = labels(cluster);
    labels.entry(label::APP.to_owned()).or_insert_with(|| cluster.name.clone());
    labels
}

/// The labels that all objects carry.
fn labels(cluster: &ValidatedCluster) -> BTreeMap<String, String> {
    let mut labels = cluster.spec.labels.clone();
    labels.extend(names::labels(&cluster.name));
    labels
}

/// The annotations of the pods that change without a restart.
pub fn pod_annotations(cluster: &ValidatedCluster) -> BTreeMap<String, String> {
    let mut annotations = cluster.spec.annotations.clone();
    annotations.extend([belongs_to(cluster)]);
    annotations
}

/// The annotations running pods are to have: those of the template that need no restart, and the revision of the settings.
pub fn live_pod_annotations(cluster: &ValidatedCluster) -> BTreeMap<String, String> {
    let mut annotations = pod_annotations(cluster);
    let revision = api::node_settings::revision(&node_settings::text(cluster));
    annotations.insert(annotation::SETTINGS_REVISION.to_owned(), revision);
    annotations
}

/// Metadata of the pod template.
pub fn template(cluster: &ValidatedCluster) -> ObjectMeta {
    let mut annotations = pod_annotations(cluster);
    annotations.entry(DEFAULT_CONTAINER.to_owned()).or_insert_with(|| container::VALKEY.to_owned());
    annotations.extend(restart::annotations(&cluster.restart_inputs));
    ObjectMeta { labels: Some(pod_labels(cluster)), annotations: Some(annotations), ..ObjectMeta::default() }
}

/// What selects the pods; never changes.
pub fn selector(cluster: &ValidatedCluster) -> LabelSelector {
    LabelSelector { match_labels: Some(names::selector(&cluster.name)), ..LabelSelector::default() }
}

fn belongs_to(cluster: &ValidatedCluster) -> (String, String) {
    (annotation::CR.to_owned(), cluster.name.clone())
}

fn owner(cluster: &ValidatedCluster) -> OwnerReference {
    OwnerReference {
        api_version: names::API_VERSION.to_owned(),
        kind: names::KIND.to_owned(),
        name: cluster.name.clone(),
        uid: cluster.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
