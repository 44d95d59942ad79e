//! Which object of ours something is about.

use kube::{Resource, ResourceExt};
use std::borrow::Cow;

/// What memories, wake-ups and the cache are keyed by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub kind: Cow<'static, str>,
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn cluster(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: Cow::Borrowed(api::names::KIND), namespace: namespace.into(), name: name.into() }
    }

    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self { kind: K::kind(&()), namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }
}

/// One life of an object: its successor of the same name is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectId {
    pub api_version: Cow<'static, str>,
    pub key: ObjectKey,
    pub uid: String,
}

impl ObjectId {
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self { api_version: K::api_version(&()), key: ObjectKey::of(object), uid: object.uid().unwrap_or_default() }
    }
}
