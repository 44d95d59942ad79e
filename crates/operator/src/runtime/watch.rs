//! The watches: of our kinds, and of what their objects own. Each keeps its part of the cache current and says which objects need a
//! pass.

use super::cache::{Cache, Entry, ObjectName, Source};
use super::controller::Controller;
use super::kind::Kind;
use super::object::{ObjectId, ObjectKey};
use super::restores::watch_through_restores;
use super::scope::Scope;
use super::{entry, resources};
use crate::client::watch_config;
use crate::metrics::Watched;
use api::names::{self, MANAGER, label};
use api::stored::Stored;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use planner::ChildKind;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// Watches what our objects own. Runs until dropped.
pub async fn run(scope: Arc<Scope>) {
    let mut streams = vec![pods(&scope), claims(&scope)];
    streams.extend(ChildKind::ALL.map(|kind| children(&scope, kind)));
    wake_all(streams, &scope).await;
}

/// Watches the objects of one kind. Runs until dropped.
pub async fn objects<K: Kind>(controller: Arc<Controller<K>>, writer: Writer<Stored<K::Object>>) {
    let (scope, known) = (controller.scope.clone(), writer.as_reader());
    let mut streams = controller.kind.wakeups(&scope, known);
    streams.push(own(controller, writer));
    wake_all(streams, &scope).await;
}

async fn wake_all(streams: Vec<BoxStream<'static, ObjectKey>>, scope: &Scope) {
    let mut concerned = stream::select_all(streams);
    while let Some(key) = concerned.next().await {
        scope.queues.wake(&key);
    }
}

fn own<K: Kind>(
    controller: Arc<Controller<K>>,
    mut writer: Writer<Stored<K::Object>>,
) -> BoxStream<'static, ObjectKey> {
    let scope = controller.scope.clone();
    let api = resources::scoped::<Stored<K::Object>>(&scope.watch_client, scope.namespace.as_deref());
    let events = watch_through_restores(api, watch_config())
        .modify(|object| *object.managed_fields_mut() = K::managed_fields(object.meta()));
    let mut began = Instant::now();
    let concerned = events.filter_map(move |event| {
        let concerned = match event {
            Ok(event) => {
                match &event {
                    Event::Init => began = Instant::now(),
                    Event::InitApply(object) => {
                        controller.states.change_known(&ObjectId::of(object), |state| state.listed(began));
                    }
                    _ => {}
                }
                writer.apply_watcher_event(&event);
                if let Event::Delete(object) = &event {
                    controller.end(&ObjectKey::of(object));
                }
                controller.kind.watched(&scope, writer.as_reader().len());
                match &event {
                    Event::Apply(object) | Event::InitApply(object) => Some(ObjectKey::of(object)),
                    Event::Init | Event::InitDone | Event::Delete(_) => None,
                }
            }
            Err(error) => {
                interrupted(K::KIND, &error, &scope);
                None
            }
        };
        futures::future::ready(concerned)
    });
    concerned.boxed()
}

fn pods(scope: &Arc<Scope>) -> BoxStream<'static, ObjectKey> {
    let api = resources::scoped::<Pod>(&scope.watch_client, scope.namespace.as_deref());
    follow(scope, Source::Pods, watch_through_restores(api, of_clusters()), |pod: Pod| entry::pod(&pod))
}

fn claims(scope: &Arc<Scope>) -> BoxStream<'static, ObjectKey> {
    let api = resources::scoped::<PersistentVolumeClaim>(&scope.watch_client, scope.namespace.as_deref());
    let events = watch_through_restores(api, of_clusters());
    follow(scope, Source::Claims, events, |claim: PersistentVolumeClaim| entry::claim(&claim))
}

fn children(scope: &Arc<Scope>, kind: ChildKind) -> BoxStream<'static, ObjectKey> {
    let api = resources::children(&scope.watch_client, kind, scope.namespace.as_deref());
    let events = watch_through_restores(api, ours());
    follow(scope, Source::Child(kind), events, move |object| entry::child(kind, object))
}

fn follow<K: 'static>(
    scope: &Arc<Scope>,
    source: Source,
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    read: impl Fn(K) -> Option<Entry> + Send + 'static,
) -> BoxStream<'static, ObjectKey> {
    let scope = scope.clone();
    let mut listing = Listing::default();
    let concerned = events.map(move |event| match event {
        Ok(event) => take(event, source, &read, &scope.cache, &mut listing),
        Err(error) => failed(source, &error, &scope),
    });
    concerned.flat_map(stream::iter).boxed()
}

/// Only what this operator made: what others have in the cluster is never loaded.
pub fn ours() -> watcher::Config {
    watch_config().labels(&format!("{}={MANAGER}", label::MANAGED_BY))
}

/// Pods and their claims: by what the Services go by. Of claims, which the StatefulSet controller makes, nothing else is certain, and of
/// pods nobody's is to be overlooked that gets clients.
fn of_clusters() -> watcher::Config {
    let selector = names::selector("");
    let fixed = selector.iter().filter(|(key, _)| *key != label::INSTANCE);
    watch_config().labels(&fixed.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
}

/// A list while it comes in.
#[derive(Default)]
struct Listing {
    began: Option<Instant>,
    names: HashSet<ObjectName>,
}

fn take<K>(
    event: Event<K>,
    source: Source,
    read: &impl Fn(K) -> Option<Entry>,
    cache: &Cache,
    listing: &mut Listing,
) -> Vec<ObjectKey> {
    match event {
        Event::Init => {
            // The request for the list follows this.
            *listing = Listing { began: Some(Instant::now()), names: HashSet::new() };
            Vec::new()
        }
        Event::InitApply(object) => read(object).map_or_else(Vec::new, |entry| {
            listing.names.insert(entry.object.clone());
            listing.began.map_or_else(Vec::new, |began| cache.insert_listed(entry, began))
        }),
        Event::InitDone => cache.listed(source, &std::mem::take(&mut listing.names)),
        Event::Apply(object) => read(object).map_or_else(Vec::new, |entry| cache.insert(entry)),
        Event::Delete(object) => read(object).map_or_else(Vec::new, |entry| cache.end(&entry)),
    }
}

fn failed(source: Source, error: &watcher::Error, scope: &Scope) -> Vec<ObjectKey> {
    if let (Source::Child(kind), true) = (source, is_not_found(error))
        && !kind.is_built_in()
    {
        scope.cache.set_not_installed(kind);
        return Vec::new();
    }
    interrupted(source.as_str(), error, scope);
    Vec::new()
}

fn interrupted(kind: &'static str, error: &watcher::Error, scope: &Scope) {
    scope.metrics.watch_errors.get_or_create(&Watched { kind }).inc();
    tracing::warn!(kind, %error, "watch interrupted, trying again");
}

/// The path itself is unknown: no such kind in this Kubernetes.
fn is_not_found(error: &watcher::Error) -> bool {
    let source = match error {
        watcher::Error::InitialListFailed(source) | watcher::Error::WatchStartFailed(source) => source,
        _ => return false,
    };
    matches!(source, kube::Error::Api(status) if status.code == 404)
}
