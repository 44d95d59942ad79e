//! How the kinds of the planner are reached in the API. Used by watch, observe and act.

use api::names::{GROUP, VERSION};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Resource};
use planner::ChildKind;
use serde_json::{Value, json};

pub fn resource(kind: ChildKind) -> ApiResource {
    let (group, version, plural) = kind.resource();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.as_str()), plural)
}

/// Objects of a kind in one namespace, or in all.
pub fn children(client: &Client, kind: ChildKind, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource(kind)),
        None => Api::all_with(client.clone(), &resource(kind)),
    }
}

/// Another kind of ours, by its name.
pub fn own_kind(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

pub fn pods(client: &Client, namespace: &str) -> Api<Pod> {
    Api::namespaced(client.clone(), namespace)
}

pub fn claims(client: &Client, namespace: &str) -> Api<PersistentVolumeClaim> {
    Api::namespaced(client.clone(), namespace)
}

pub fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// The object as plain JSON, as small as it can be: without field managers, with the types that lists leave out.
pub fn plain(kind: ChildKind, mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    let mut value = serde_json::to_value(&object).unwrap_or_default();
    let resource = resource(kind);
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".to_owned(), json!(resource.api_version));
        map.insert("kind".to_owned(), json!(resource.kind));
    }
    value
}
