//! Objects from the API as entries of the cache: whose they are, and what is worth keeping. Pure.

use super::cache::{Entry, ObjectName, Payload, Source};
use super::object::ObjectKey;
use super::resources;
use api::names::{GROUP, KIND, annotation, label};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use planner::{ChildKind, ClaimFacts, PodFacts};
use std::sync::Arc;

pub fn child(kind: ChildKind, object: DynamicObject) -> Option<Entry> {
    let metadata = object.metadata.clone();
    entry(Source::Child(kind), &metadata, || Payload::Child(Arc::new(resources::plain(kind, object))))
}

pub fn pod(pod: &Pod) -> Option<Entry> {
    entry(Source::Pods, &pod.metadata, || Payload::Pod(Arc::new(PodFacts::of(pod))))
}

pub fn claim(claim: &PersistentVolumeClaim) -> Option<Entry> {
    entry(Source::Claims, &claim.metadata, || Payload::Claim(Arc::new(ClaimFacts::of(claim))))
}

fn entry(source: Source, metadata: &ObjectMeta, payload: impl FnOnce() -> Payload) -> Option<Entry> {
    let object = ObjectName { source, namespace: metadata.namespace.clone()?, name: metadata.name.clone()? };
    Some(Entry {
        object,
        owner: owner_of(metadata)?,
        uid: metadata.uid.clone()?,
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        payload: payload(),
    })
}

/// Which object of ours this belongs to. The controller says it best: labels and annotations are what people edit. A pod's
/// controller is a StatefulSet, which is named as its cluster.
pub fn owner_of(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let namespace = metadata.namespace.clone()?;
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    if let Some(owner) = controller.filter(|owner| is_ours(owner) && owner.kind != KIND) {
        return Some(ObjectKey { kind: owner.kind.clone().into(), namespace, name: owner.name.clone() });
    }
    let owner = controller.filter(|owner| owner.kind == KIND || owner.kind == "StatefulSet");
    let labels = metadata.labels.as_ref().and_then(|labels| labels.get(label::INSTANCE));
    let annotations = metadata.annotations.as_ref().and_then(|annotations| annotations.get(annotation::CR));
    let name = owner.map(|owner| &owner.name).or(labels).or(annotations).or(metadata.name.as_ref())?;
    Some(ObjectKey::cluster(namespace, name))
}

fn is_ours(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split('/').next().unwrap_or_default();
    group == GROUP || group.strip_suffix(GROUP).is_some_and(|before| before.ends_with('.'))
}
