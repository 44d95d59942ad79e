//! Objects from the API as entries of the cache: whose they are, and what is worth keeping. Pure.

use super::cache::{Entry, ObjectName, Payload, Source};
use super::object::ObjectKey;
use super::resources;
use api::names::{self, GROUP, KIND, annotation, label};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use planner::{ChildKind, ClaimFacts, PodFacts};
use std::sync::Arc;

pub fn child(kind: ChildKind, object: DynamicObject) -> Option<Entry> {
    let metadata = object.metadata.clone();
    entry(Source::Child(kind), &metadata, || Payload::Child(Arc::new(resources::plain(kind, object))))
}

/// One that is no pod of ours is a stranger to the cluster that its label names.
pub fn pod(pod: &Pod) -> Option<Entry> {
    let facts = Arc::new(PodFacts::of(pod));
    match cluster_of_pod(pod) {
        Some(cluster) => owned_entry(Source::Pods, &pod.metadata, cluster, Payload::Pod(facts)),
        None => entry(Source::Pods, &pod.metadata, || Payload::Stranger(facts)),
    }
}

/// A claim is taken by the pod that its name says, whatever its labels.
pub fn claim(claim: &PersistentVolumeClaim) -> Option<Entry> {
    let facts = Arc::new(ClaimFacts::of(claim));
    let cluster = key_of(&claim.metadata, claim.metadata.name.as_deref().and_then(names::cluster_of_claim));
    match cluster {
        Some(cluster) => owned_entry(Source::Claims, &claim.metadata, cluster, Payload::Claim(facts)),
        None => entry(Source::Claims, &claim.metadata, || Payload::Claim(facts)),
    }
}

fn entry(source: Source, metadata: &ObjectMeta, payload: impl FnOnce() -> Payload) -> Option<Entry> {
    owned_entry(source, metadata, owner_of(metadata)?, payload())
}

fn owned_entry(source: Source, metadata: &ObjectMeta, owner: ObjectKey, payload: Payload) -> Option<Entry> {
    let object = ObjectName { source, namespace: metadata.namespace.clone()?, name: metadata.name.clone()? };
    Some(Entry {
        object,
        owner,
        uid: metadata.uid.clone()?,
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        payload,
    })
}

/// Whose pod it is. Labels do not count: people edit them, and a StatefulSet lets go of a pod whose labels it does not know. Then, and
/// while a StatefulSet is made anew, the pod is nobody's; what it is made of tells it from one of that name that somebody else made.
pub fn cluster_of_pod(pod: &Pod) -> Option<ObjectKey> {
    let cluster = names::cluster_of_pod(pod.metadata.name.as_deref()?)?;
    let ours = match controller(&pod.metadata) {
        Some(owner) => owner.kind == "StatefulSet" && owner.name == cluster,
        None => is_made_for(cluster, pod),
    };
    key_of(&pod.metadata, ours.then_some(cluster))
}

/// The account never changes, nor do the containers' names.
fn is_made_for(cluster: &str, pod: &Pod) -> bool {
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    let mut containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    account == Some(&names::service_account(cluster))
        && containers.any(|container| container.name == names::container::SIDECAR)
}

fn key_of(metadata: &ObjectMeta, cluster: Option<&str>) -> Option<ObjectKey> {
    Some(ObjectKey::cluster(metadata.namespace.clone()?, cluster?))
}

fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Which object of ours this belongs to. The controller says it best: labels and annotations are what people edit.
pub fn owner_of(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let namespace = metadata.namespace.clone()?;
    let controller = controller(metadata);
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod_of(name: &str, instance: &str, owner: Value, account: &str) -> Entry {
        let labels = json!({ label::INSTANCE: instance, label::NAME: "valkey", label::COMPONENT: "cluster" });
        let metadata =
            json!({ "name": name, "namespace": "n", "uid": "u", "labels": labels, "ownerReferences": owner });
        let spec =
            json!({ "serviceAccountName": account, "containers": [], "initContainers": [{ "name": "sidecar" }] });
        pod(&serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()).unwrap()
    }

    fn made_by(kind: &str, name: &str) -> Value {
        json!([{ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "s", "controller": true }])
    }

    #[test]
    fn a_pod_is_its_clusters_whatever_its_label_says() {
        let (nobody, set) = (json!([]), |name| made_by("StatefulSet", name));
        let cases = [
            (("c-0", "other", set("c"), "c-valkey"), "c", true),
            (("c-0", "other", nobody.clone(), "c-valkey"), "c", true),
            (("a-1-0", "a", nobody.clone(), "a-1-valkey"), "a-1", true),
            (("a-1", "a", nobody.clone(), "a-valkey"), "a", true),
            (("c-0", "c", nobody.clone(), "default"), "c", false),
            (("c-0", "c", nobody.clone(), "other-valkey"), "c", false),
            (("c-0", "c", made_by("ReplicaSet", "c"), "c-valkey"), "c", false),
            (("web-7", "c", nobody, "c-valkey"), "c", false),
            (("c-x", "c", set("c"), "c-valkey"), "c", false),
            (("d-0", "c", set("c"), "c-valkey"), "c", false),
        ];
        for ((name, instance, owner, account), cluster, ours) in cases {
            let found = pod_of(name, instance, owner, account);
            let is_ours = matches!(found.payload, Payload::Pod(_));
            assert_eq!((found.owner.name.as_str(), is_ours), (cluster, ours), "{name} with the label {instance}");
        }
    }

    #[test]
    fn a_claim_is_of_the_cluster_whose_pod_takes_it() {
        let of = |name: &str, instance: &str| {
            let metadata =
                json!({ "name": name, "namespace": "n", "uid": "u", "labels": { label::INSTANCE: instance } });
            let found: PersistentVolumeClaim = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
            let Payload::Claim(facts) = claim(&found).unwrap().payload else { panic!("it is a claim") };
            (claim(&found).unwrap().owner.name, facts.mislabelled)
        };
        assert_eq!(of("data-c-0", "c"), ("c".to_owned(), false));
        assert_eq!(of("data-c-0", "other"), ("c".to_owned(), true));
        assert_eq!(of("data-a-1-0", "a"), ("a-1".to_owned(), true));
        assert_eq!(of("backup", "c"), ("c".to_owned(), false));
    }
}
