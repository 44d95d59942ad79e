//! Wires the watches of one scope to passes over its clusters, and runs until asked to stop.

use crate::api_work::Running;
use crate::cache::Cache;
use crate::client::Clients;
use crate::commands::{CommandDispatcher, Zones};
use crate::context::Context;
use crate::health::{Health, Stage};
use crate::identity::Identities;
use crate::line::{Line, WatchedScope};
use crate::metrics::Metrics;
use crate::reconcile::reconcile;
use crate::runtime_state::RuntimeStates;
use crate::stop::Stop;
use crate::watch::{Guarded, Watches, name_of};
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::{FutureExt, StreamExt};
use kube::ResourceExt;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store, store};
use manifests::OperatorSettings;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Passes over different clusters at the same time.
const CONCURRENCY: u16 = 16;
/// How often to say what is still waited for at the start.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a scope needs to run.
#[derive(Clone)]
pub struct Scope {
    pub clients: Clients,
    /// None: all namespaces.
    pub namespace: Option<String>,
    pub line: Arc<Line>,
    pub identities: Arc<Identities>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub settings: OperatorSettings,
    pub resync: Duration,
}

impl Scope {
    /// What is under way when the stop comes is finished first.
    pub async fn run(self, stop: Stop) {
        let cache = Arc::new(Cache::default());
        let (clusters, writer) = store();
        let (queue, requests) = unbounded();
        let watches = Watches {
            client: self.clients.watches.clone(),
            namespace: self.namespace.clone(),
            cache: cache.clone(),
            metrics: self.metrics.clone(),
            queue: queue.clone(),
            identities: self.identities.clone(),
        };
        let (namespace, cache_of, known) = (self.namespace.clone(), cache.clone(), clusters.clone());
        self.line.scopes.claim(WatchedScope { namespace, cache: cache_of, clusters: known, queue });
        let watching = tokio::spawn(watches.run(writer));
        tokio::select! {
            () = self.synchronize(&cache) => self.work(cache, clusters, requests, stop).await,
            () = stop.clone().wished() => {}
        }
        watching.abort();
    }

    async fn synchronize(&self, cache: &Cache) {
        while tokio::time::timeout(PATIENCE, cache.complete()).await.is_err() {
            let missing = cache.missing().iter().map(|source| source.as_str()).collect::<Vec<_>>().join(", ");
            tracing::warn!("still waiting for the first list of {missing}");
            self.health.set(Stage::Synchronizing(format!("the first list of {missing}")));
        }
        self.health.listed();
        tracing::info!(namespace = self.namespace.as_deref().unwrap_or("all"), "watching ValkeyClusters");
    }

    async fn work(
        &self,
        cache: Arc<Cache>,
        clusters: Store<Guarded>,
        requests: UnboundedReceiver<ObjectRef<Guarded>>,
        stop: Stop,
    ) {
        let context = Arc::new(self.context(cache));
        let queue = requests.map(Ok::<_, Infallible>).take_until(stop.wished().boxed());
        let config = Config::default().concurrency(CONCURRENCY);
        let finishing = context.clone();
        let known = clusters.clone();
        let (forgetting, scope) = (context.clone(), self.namespace.clone());
        applier(|cluster, context| reconcile(cluster, context).boxed(), never, context, clusters, queue, config)
            .for_each(move |_| {
                let uids = || known.state().iter().filter_map(|cluster| cluster.uid()).collect::<Vec<_>>();
                if forgetting.states.keep_up_to(known.len(), uids) {
                    forgetting.line.roster.keep_clusters(scope.as_deref(), &uids());
                    forgetting.dispatcher.keep_clusters(&uids());
                    forgetting.api_work.keep_clusters(&uids());
                    let names = known.state().iter().map(|cluster| name_of(cluster)).collect::<Vec<_>>();
                    forgetting.identities.keep_clusters(scope.as_deref(), &names);
                }
                futures::future::ready(())
            })
            .await;
        finishing.api_work.finish().await;
    }

    fn context(&self, cache: Arc<Cache>) -> Context {
        Context {
            client: self.clients.requests.clone(),
            cache,
            line: self.line.clone(),
            dispatcher: Arc::new(CommandDispatcher::new(self.line.clone())),
            zones: Zones::default(),
            identities: self.identities.clone(),
            metrics: self.metrics.clone(),
            settings: self.settings.clone(),
            resync: self.resync,
            states: RuntimeStates::default(),
            api_work: Running::default(),
        }
    }
}

/// A pass does not fail: what goes wrong at the API server is tried again by whoever asked it.
fn never(_: Arc<Guarded>, error: &Infallible, _: Arc<Context>) -> Action {
    match *error {}
}
