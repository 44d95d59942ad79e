//! Wires the watches of one scope to looks at its clusters, and runs until asked to stop.

use crate::backoff;
use crate::cache::Cache;
use crate::conduct::{Conductor, Zones};
use crate::context::Context;
use crate::health::{Health, Stage};
use crate::identity::Identities;
use crate::line::{Ground, Line};
use crate::metrics::Metrics;
use crate::recent::Recent;
use crate::reconcile::{Error, reconcile};
use crate::stop::Stop;
use crate::watch::{Guarded, Watches, name_of};
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::{FutureExt, StreamExt};
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::{Client, ResourceExt};
use manifests::OperatorSettings;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Looks at different clusters at the same time; each is mostly waiting for the API server.
const CONCURRENCY: u16 = 16;
/// An API server that does not answer must not hold a cluster for ever; what was begun is begun again.
const LOOK_DEADLINE: Duration = Duration::from_secs(120);
/// How often to say what is still waited for at the start.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a scope needs to run.
#[derive(Clone)]
pub struct Scope {
    pub client: Client,
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
    /// Looks that are under way when the stop comes are finished first.
    pub async fn run(self, stop: Stop) {
        let cache = Arc::new(Cache::default());
        let (clusters, writer) = store();
        let (queue, requests) = unbounded();
        let watches = Watches {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            cache: cache.clone(),
            metrics: self.metrics.clone(),
            queue: queue.clone(),
            identities: self.identities.clone(),
        };
        let (namespace, cache_of, known) = (self.namespace.clone(), cache.clone(), clusters.clone());
        self.line.territory.claim(Ground { namespace, cache: cache_of, clusters: known, queue });
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
        let known = clusters.clone();
        let (forgetting, scope) = (context.clone(), self.namespace.clone());
        applier(|cluster, context| look(cluster, context).boxed(), after_failure, context, clusters, queue, config)
            .for_each(move |_| {
                let uids = || known.state().iter().filter_map(|cluster| cluster.uid()).collect::<Vec<_>>();
                if forgetting.recent.keep_up_to(known.len(), uids) {
                    forgetting.line.roster.keep_clusters(scope.as_deref(), &uids());
                    forgetting.conductor.keep_clusters(&uids());
                    let names = known.state().iter().map(|cluster| name_of(cluster)).collect::<Vec<_>>();
                    forgetting.identities.keep_clusters(scope.as_deref(), &names);
                }
                futures::future::ready(())
            })
            .await;
    }

    fn context(&self, cache: Arc<Cache>) -> Context {
        Context {
            client: self.client.clone(),
            cache,
            line: self.line.clone(),
            conductor: Arc::new(Conductor::new(self.line.clone())),
            zones: Zones::default(),
            identities: self.identities.clone(),
            metrics: self.metrics.clone(),
            settings: self.settings.clone(),
            resync: self.resync,
            recent: Recent::default(),
        }
    }
}

async fn look(cluster: Arc<Guarded>, context: Arc<Context>) -> Result<Action, Error> {
    let start = Instant::now();
    let result = tokio::time::timeout(LOOK_DEADLINE, reconcile(cluster, context.clone())).await;
    let result = result.unwrap_or(Err(Error::TooLong(LOOK_DEADLINE)));
    let outcome = result.as_ref().map_or_else(Error::reason, |_| "ok");
    context.metrics.reconciled(outcome, start.elapsed().as_secs_f64());
    result
}

fn after_failure(cluster: Arc<Guarded>, error: &Error, context: Arc<Context>) -> Action {
    let (failures, nodes_due) = context.recent.change(&cluster.uid().unwrap_or_default(), |memory| {
        memory.failures = memory.failures.saturating_add(1);
        (memory.failures, memory.decided.as_ref().and_then(|decided| decided.look_again))
    });
    let delay = backoff::beside_nodes(backoff::delay(failures, fastrand::f64()), nodes_due);
    tracing::warn!(cluster = cluster.name_any(), namespace = cluster.namespace(), %error, ?delay, "trying again later");
    Action::requeue(delay)
}
