//! The watches: each keeps its part of the cache current and says which clusters need a pass. One task per scope runs them all.

use crate::cache::{Cache, ClusterName, Entry, ObjectName, Source};
use crate::identity::Identities;
use crate::metrics::{Metrics, Scoped, Watched};
use crate::{entry, resources};
use api::certificates::{ValkeyCertificateBinding, ValkeyCertificateBundle};
use api::cluster::ValkeyCluster;
use api::names::{self, MANAGER, label};
use futures::channel::mpsc::UnboundedSender;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Client, Resource, ResourceExt};
use planner::ChildKind;
use std::collections::HashSet;
use std::sync::Arc;

/// A ValkeyCluster as it came: one that cannot be read must not hide the others.
pub type Guarded = DeserializeGuard<ValkeyCluster>;

/// Where events go.
pub struct Watches {
    pub client: Client,
    /// None: all namespaces.
    pub namespace: Option<String>,
    pub cache: Arc<Cache>,
    pub metrics: Arc<Metrics>,
    pub queue: UnboundedSender<ObjectRef<Guarded>>,
    pub identities: Arc<Identities>,
}

impl Watches {
    /// Runs until dropped.
    pub async fn run(self, clusters: Writer<Guarded>) {
        let known = clusters.as_reader();
        let mut streams = vec![self.clusters(clusters), self.pods(), self.claims()];
        streams.push(self.certificates::<ValkeyCertificateBundle>());
        streams.push(self.certificates::<ValkeyCertificateBinding>());
        streams.push(self.roots(known));
        streams.extend(ChildKind::ALL.map(|kind| self.children(kind)));
        let mut concerned = stream::select_all(streams);
        while let Some(cluster) = concerned.next().await {
            // The receiver ends only with the process.
            let _ = self.queue.unbounded_send(ObjectRef::new(&cluster.name).within(&cluster.namespace));
        }
    }

    fn clusters(&self, mut writer: Writer<Guarded>) -> BoxStream<'static, ClusterName> {
        let api = resources::scoped::<Guarded>(&self.client, self.namespace.as_deref());
        let events = watch(api, watcher::Config::default())
            .default_backoff()
            .modify(|cluster| cluster.managed_fields_mut().clear());
        let (cache, metrics, identities) = (self.cache.clone(), self.metrics.clone(), self.identities.clone());
        let scope = Scoped { namespace: self.namespace.clone().unwrap_or_default() };
        let concerned = events.map(move |event| match event {
            Ok(event) => {
                writer.apply_watcher_event(&event);
                if let Event::Delete(cluster) = &event {
                    identities.forget(&name_of(cluster));
                }
                let count = i64::try_from(writer.as_reader().len()).unwrap_or(i64::MAX);
                metrics.clusters.get_or_create(&scope).set(count);
                cluster_event(&event, &cache)
            }
            Err(error) => failed(Source::Clusters, &error, &cache, &metrics),
        });
        concerned.flat_map(stream::iter).boxed()
    }

    fn pods(&self) -> BoxStream<'static, ClusterName> {
        let api = resources::scoped::<Pod>(&self.client, self.namespace.as_deref());
        self.follow(Source::Pods, watch(api, ours()).default_backoff(), |pod: Pod| entry::pod(&pod))
    }

    fn claims(&self) -> BoxStream<'static, ClusterName> {
        let api = resources::scoped::<PersistentVolumeClaim>(&self.client, self.namespace.as_deref());
        let events = watch(api, of_pods()).default_backoff();
        self.follow(Source::Claims, events, |claim: PersistentVolumeClaim| entry::claim(&claim))
    }

    fn children(&self, kind: ChildKind) -> BoxStream<'static, ClusterName> {
        let api = resources::children(&self.client, kind, self.namespace.as_deref());
        let events = watch(api, ours()).default_backoff();
        self.follow(Source::Child(kind), events, move |object| entry::child(kind, object))
    }

    /// What shows a cluster's certificates is not kept here: whoever changes it makes the cluster be looked at, and that reads it.
    fn certificates<K>(&self) -> BoxStream<'static, ClusterName>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + Send + 'static,
    {
        let api = resources::scoped::<PartialObjectMeta<K>>(&self.client, self.namespace.as_deref());
        let identities = self.identities.clone();
        let concerned = watch(api, ours()).default_backoff().filter_map(move |event| {
            let (metadata, gone) = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => (object.metadata, false),
                Ok(Event::Delete(object)) => (object.metadata, true),
                _ => return futures::future::ready(None),
            };
            let version = metadata.resource_version.as_deref().filter(|_| !gone);
            let cluster = entry::cluster_of(&metadata)
                .map(|name| ClusterName { namespace: metadata.namespace.clone().unwrap_or_default(), name });
            let name = metadata.name.as_deref().unwrap_or_default();
            futures::future::ready(cluster.filter(|cluster| identities.noticed(cluster, name, version)))
        });
        concerned.boxed()
    }

    /// A change of root concerns every cluster.
    fn roots(&self, known: Store<Guarded>) -> BoxStream<'static, ClusterName> {
        let changes = stream::unfold(self.identities.changes(), |mut changes| async move {
            changes.changed().await.ok()?;
            Some(((), changes))
        });
        let all =
            move |()| stream::iter(known.state().into_iter().map(|cluster| name_of(&cluster)).collect::<Vec<_>>());
        changes.flat_map(all).boxed()
    }

    fn follow<K: 'static>(
        &self,
        source: Source,
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
        read: impl Fn(K) -> Option<Entry> + Send + 'static,
    ) -> BoxStream<'static, ClusterName> {
        let (cache, metrics) = (self.cache.clone(), self.metrics.clone());
        let mut listing = HashSet::new();
        let concerned = events.map(move |event| match event {
            Ok(event) => take(event, source, &read, &cache, &mut listing),
            Err(error) => failed(source, &error, &cache, &metrics),
        });
        concerned.flat_map(stream::iter).boxed()
    }
}

/// Only what this operator made: what others have in the cluster is never loaded.
fn ours() -> watcher::Config {
    watcher::Config::default().labels(&format!("{}={MANAGER}", label::MANAGED_BY))
}

/// Volume claims are made by the StatefulSet controller, which gives them no more labels than the pods' selector has.
fn of_pods() -> watcher::Config {
    let selector = names::selector("");
    let fixed = selector.iter().filter(|(key, _)| *key != label::INSTANCE);
    watcher::Config::default().labels(&fixed.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
}

pub fn name_of(cluster: &Guarded) -> ClusterName {
    ClusterName { namespace: cluster.namespace().unwrap_or_default(), name: cluster.name_any() }
}

fn cluster_event(event: &Event<Guarded>, cache: &Cache) -> Vec<ClusterName> {
    match event {
        Event::Apply(cluster) | Event::InitApply(cluster) => {
            vec![name_of(cluster)]
        }
        Event::InitDone => cache.listed(Source::Clusters, &HashSet::new()),
        Event::Init | Event::Delete(_) => Vec::new(),
    }
}

fn take<K>(
    event: Event<K>,
    source: Source,
    read: &impl Fn(K) -> Option<Entry>,
    cache: &Cache,
    listing: &mut HashSet<ObjectName>,
) -> Vec<ClusterName> {
    match event {
        Event::Init => {
            listing.clear();
            Vec::new()
        }
        Event::InitApply(object) => read(object).map_or_else(Vec::new, |entry| {
            listing.insert(entry.object.clone());
            cache.insert(entry)
        }),
        Event::InitDone => cache.listed(source, &std::mem::take(listing)),
        Event::Apply(object) => read(object).map_or_else(Vec::new, |entry| cache.insert(entry)),
        Event::Delete(object) => read(object).map_or_else(Vec::new, |entry| cache.end(&entry)),
    }
}

fn failed(source: Source, error: &watcher::Error, cache: &Cache, metrics: &Metrics) -> Vec<ClusterName> {
    if let (Source::Child(kind), true) = (source, is_not_found(error))
        && !kind.is_built_in()
    {
        cache.set_not_installed(kind);
        return Vec::new();
    }
    metrics.watch_errors.get_or_create(&Watched { kind: source.as_str() }).inc();
    tracing::warn!(kind = source.as_str(), %error, "watch interrupted, trying again");
    Vec::new()
}

/// The path itself is unknown: no such kind in this Kubernetes.
fn is_not_found(error: &watcher::Error) -> bool {
    let source = match error {
        watcher::Error::InitialListFailed(source) | watcher::Error::WatchStartFailed(source) => source,
        _ => return false,
    };
    matches!(source, kube::Error::Api(status) if status.code == 404)
}
