//! The scopes this operator looks after, as the line sees them: whose pod this is, and which cluster needs a pass now.
//! Filled by each scope when it starts; the caches behind it are the watches'.

use crate::runtime::{Cache, Entry, ObjectKey, ObjectName, Payload, Queues, Source};
use api::cluster::ValkeyCluster;
use api::stored::Stored;
use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};
use planner::{ChildKind, PodFacts};
use std::sync::{Arc, PoisonError, RwLock};

/// One scope's part of the scopes.
#[derive(Clone)]
pub struct WatchedScope {
    /// None: all namespaces.
    pub namespace: Option<String>,
    pub cache: Arc<Cache>,
    pub clusters: Store<Stored<ValkeyCluster>>,
    pub queues: Queues,
}

#[derive(Default)]
pub struct Scopes {
    scopes: RwLock<Vec<WatchedScope>>,
}

impl Scopes {
    pub fn add(&self, scope: WatchedScope) {
        self.scopes.write().unwrap_or_else(PoisonError::into_inner).push(scope);
    }

    /// The scope a namespace is in.
    pub fn scope(&self, namespace: &str) -> Option<WatchedScope> {
        let scopes = self.scopes.read().unwrap_or_else(PoisonError::into_inner);
        scopes.iter().find(|scope| scope.namespace.as_deref().is_none_or(|own| own == namespace)).cloned()
    }

    /// Asks for a pass over a cluster.
    pub fn wake(&self, cluster: &ObjectKey) {
        if let Some(scope) = self.scope(&cluster.namespace) {
            scope.queues.wake(cluster);
        }
    }
}

impl WatchedScope {
    pub fn pod(&self, namespace: &str, name: &str) -> Option<(ObjectKey, Arc<PodFacts>)> {
        let object = ObjectName { source: Source::Pods, namespace: namespace.to_owned(), name: name.to_owned() };
        match self.cache.find(&object)? {
            Entry { owner: cluster, payload: Payload::Pod(facts), .. } => Some((cluster, facts)),
            _ => None,
        }
    }

    /// The UID of a cluster's StatefulSet.
    pub fn stateful_set(&self, cluster: &ObjectKey) -> Option<String> {
        let source = Source::Child(ChildKind::StatefulSet);
        let object = ObjectName { source, namespace: cluster.namespace.clone(), name: cluster.name.clone() };
        self.cache.find(&object).map(|entry| entry.uid)
    }

    /// The UID of a ValkeyCluster.
    pub fn cluster(&self, cluster: &ObjectKey) -> Option<String> {
        self.clusters.get(&ObjectRef::new(&cluster.name).within(&cluster.namespace)).and_then(|found| found.uid())
    }
}
