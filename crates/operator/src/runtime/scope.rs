//! One scope: a namespace, or all of them. What all kinds in it share.

use super::cache::Cache;
use super::controller::{AnyController, AnyKind};
use super::object::ObjectKey;
use super::references::WatchedReferences;
use super::watch;
use crate::client::Clients;
use crate::health::{Health, Stage};
use crate::metrics::Metrics;
use crate::stop::Stop;
use api::installed::Installed;
use futures::FutureExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::join_all;
use kube::Client;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// How often to say what is still waited for at the start.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct ScopeSettings {
    pub clients: Clients,
    /// None: all namespaces.
    pub namespace: Option<String>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub resync: Duration,
    pub kinds: Vec<Box<dyn AnyKind>>,
}

pub struct Scope {
    pub client: Client,
    pub watch_client: Client,
    /// None: all namespaces.
    pub namespace: Option<String>,
    pub cache: Arc<Cache>,
    pub queues: Queues,
    pub references: WatchedReferences,
    pub installed: Arc<Installed>,
    pub metrics: Arc<Metrics>,
    pub resync: Duration,
    health: Arc<Health>,
}

/// Who asks for passes, by kind.
#[derive(Clone, Default)]
pub struct Queues {
    by_kind: Arc<RwLock<HashMap<String, UnboundedSender<ObjectKey>>>>,
}

impl Queues {
    /// What is asked for of one kind.
    pub fn open(&self, kind: &str) -> UnboundedReceiver<ObjectKey> {
        let (sender, receiver) = unbounded();
        self.by_kind.write().unwrap_or_else(PoisonError::into_inner).insert(kind.to_owned(), sender);
        receiver
    }

    /// Asks for a pass over an object; of a kind that nobody works on, nothing comes of it.
    pub fn wake(&self, key: &ObjectKey) {
        let queues = self.by_kind.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(&*key.kind) {
            // The receiver ends only with the process.
            let _ = queue.unbounded_send(key.clone());
        }
    }
}

impl Scope {
    /// With its kinds, of which none is watched yet.
    pub fn new(settings: ScopeSettings) -> (Self, Vec<Box<dyn AnyKind>>) {
        let ScopeSettings { clients, namespace, metrics, health, resync, kinds } = settings;
        let queues = Queues::default();
        let scope = Self {
            references: WatchedReferences::new(clients.watches.clone(), queues.clone()),
            client: clients.requests,
            installed: clients.installed,
            watch_client: clients.watches,
            namespace,
            cache: Arc::default(),
            queues,
            metrics,
            resync,
            health,
        };
        (scope, kinds)
    }

    /// Works on the kinds until asked to stop. What is under way then is finished first.
    pub async fn run(settings: ScopeSettings, stop: Stop) {
        let (scope, kinds) = Self::new(settings);
        let scope = Arc::new(scope);
        let controllers: Vec<_> = kinds.into_iter().map(|kind| kind.start(&scope)).collect();
        let watching = tokio::spawn(watch::run(scope.clone()));
        tokio::select! {
            () = scope.synchronize(&controllers) => {
                join_all(controllers.into_iter().map(|controller| controller.work(stop.clone()))).await;
            }
            () = stop.clone().wished() => {}
        }
        watching.abort();
    }

    async fn synchronize(&self, controllers: &[Box<dyn AnyController>]) {
        let mut all = Box::pin(async {
            self.cache.complete().await;
            join_all(controllers.iter().map(|controller| controller.listed())).await;
        });
        while tokio::time::timeout(PATIENCE, &mut all).await.is_err() {
            let unlisted = controllers.iter().filter(|controller| controller.listed().now_or_never().is_none());
            let children = self.cache.missing().into_iter().map(|source| source.as_str());
            let missing = unlisted.map(|controller| controller.kind()).chain(children).collect::<Vec<_>>().join(", ");
            tracing::warn!("still waiting for the first list of {missing}");
            self.health.set(Stage::Synchronizing(format!("the first list of {missing}")));
        }
        self.health.listed();
        let kinds = controllers.iter().map(|controller| controller.kind()).collect::<Vec<_>>().join(", ");
        tracing::info!(namespace = self.namespace.as_deref().unwrap_or("all"), kinds, "watching");
    }
}
