//! The kind ValkeyCluster: what is seen of one, what is planned for it, and its nodes' commands. Commands are sent at once; whatever
//! asks the API server goes on in the background, so that a slow API server holds up no failover.

mod facts;
mod lookups;
mod memory;
mod next_pass;
mod observe;

use crate::commands::{CommandContext, CommandDispatcher, Zones};
use crate::identity::Identities;
use crate::line::{Line, WatchedScope};
use crate::metrics::Scoped;
use crate::runtime::{
    ActError, Intent, Kind, Known, Memories, ObjectId, ObjectKey, Scope, Unreadable, ours, owner_of, scoped,
    watch_through_restores,
};
use api::certificates::{ValkeyCertificateBinding, ValkeyCertificateBundle};
use api::cluster::{ValkeyCluster, ValkeyClusterStatus, ownership};
use api::conditions::Reason;
use api::stored::Stored;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ManagedFieldsEntry, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::Store;
use kube::runtime::watcher::Event;
use manifests::OperatorSettings;
use memory::Memory;
use observe::Seen;
use planner::nodes::PodCommand;
use planner::{
    Identity, Notice, Plan, Report, Step, WriteOutcome, only_progress, plan, status, validate, whole_second,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// What passes over ValkeyClusters share.
pub struct ClusterKind {
    line: Arc<Line>,
    dispatcher: Arc<CommandDispatcher>,
    zones: Zones,
    identities: Arc<Identities>,
    settings: OperatorSettings,
    resync: Duration,
    memories: Memories<Memory>,
}

impl ClusterKind {
    pub fn new(line: Arc<Line>, identities: Arc<Identities>, settings: OperatorSettings, resync: Duration) -> Self {
        Self {
            dispatcher: Arc::new(CommandDispatcher::new(line.clone())),
            line,
            zones: Zones::default(),
            identities,
            settings,
            resync,
            memories: Memories::default(),
        }
    }

    /// What shows a cluster's certificates is not kept here: whoever changes it causes a pass, and that reads it.
    fn certificates<K>(&self, scope: &Scope) -> BoxStream<'static, ObjectKey>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + Send + 'static,
    {
        let api = scoped::<PartialObjectMeta<K>>(&scope.watch_client, scope.namespace.as_deref());
        let identities = self.identities.clone();
        let concerned = watch_through_restores(api, ours()).filter_map(move |event| {
            let (metadata, gone) = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => (object.metadata, false),
                Ok(Event::Delete(object)) => (object.metadata, true),
                _ => return futures::future::ready(None),
            };
            let version = metadata.resource_version.as_deref().filter(|_| !gone);
            let name = metadata.name.as_deref().unwrap_or_default();
            let noticed = |cluster: &ObjectKey| identities.noticed(cluster, name, version);
            futures::future::ready(owner_of(&metadata).filter(noticed))
        });
        concerned.boxed()
    }

    /// A change of root concerns every cluster.
    fn roots(&self, known: Store<Stored<ValkeyCluster>>) -> BoxStream<'static, ObjectKey> {
        let changes = stream::unfold(self.identities.changes(), |mut changes| async move {
            changes.changed().await.ok()?;
            Some(((), changes))
        });
        let all =
            move |()| stream::iter(known.state().iter().map(|cluster| ObjectKey::of(&**cluster)).collect::<Vec<_>>());
        changes.flat_map(all).boxed()
    }
}

impl Kind for ClusterKind {
    type Object = ValkeyCluster;
    type Observation = Seen;
    type Details = Report;
    type Status = ValkeyClusterStatus;
    const KIND: &'static str = api::names::KIND;
    const STATUS: &'static str = "ValkeyCluster/status";

    fn conditions(status: &ValkeyClusterStatus) -> &[Condition] {
        &status.conditions
    }

    fn observed_generation(status: &ValkeyClusterStatus) -> Option<i64> {
        status.observed_generation
    }

    fn is_progress(before: &ValkeyClusterStatus, after: &ValkeyClusterStatus) -> bool {
        only_progress(before, after)
    }

    /// Enough to tell a masterCount that somebody set from the schema's default.
    fn managed_fields(metadata: &ObjectMeta) -> Vec<ManagedFieldsEntry> {
        ownership::kept(metadata)
    }

    async fn observe(&self, cluster: &ValkeyCluster, known: &Known<'_, ValkeyClusterStatus>) -> Seen {
        self.observed(cluster, known)
    }

    fn plan(
        &self,
        cluster: &ValkeyCluster,
        seen: &Seen,
        previous: Option<&ValkeyClusterStatus>,
        now: Timestamp,
    ) -> Intent<ValkeyClusterStatus, Report> {
        let validated = validate(cluster, &self.settings, &seen.observation);
        let Plan { steps, mut report, .. } = plan(validated.as_ref().map_err(Vec::as_slice), &seen.observation, now);
        Intent {
            steps,
            status: status(&report, &seen.observation.cluster, previous, whole_second(now)),
            other_statuses: std::mem::take(&mut report.certificates.statuses),
            events: report.nodes.iter().flat_map(|decision| &decision.events).map(notice).collect(),
            silent: report.deleting,
            requeue_after: next_pass::requeue_after(&report, seen, self.resync),
            details: report,
        }
    }

    fn wrote(&self, seen: &mut Seen, outcome: WriteOutcome) {
        seen.observation.writes = outcome;
    }

    fn unreadable(
        &self,
        object: &Unreadable<'_>,
        previous: Option<&ValkeyClusterStatus>,
        now: Timestamp,
    ) -> ValkeyClusterStatus {
        let ObjectKey { namespace, name, .. } = object.id.key.clone();
        let (uid, generation, deleting) = (object.id.uid.clone(), object.generation, object.deleting);
        let mut report = Report { deleting, ..Report::default() };
        report.trouble(Reason::InvalidSpec, format!("the object cannot be read: {}", object.error));
        status(&report, &Identity { name, namespace, uid, generation, deleting }, previous, whole_second(now))
    }

    /// Streams are kept while something is under way.
    fn send(&self, id: &ObjectId, seen: &Seen, intent: &Intent<ValkeyClusterStatus, Report>) {
        let Some(decision) = &intent.details.nodes else { return };
        self.memories.change(id, |memory| memory.decided(decision));
        let commands: Vec<PodCommand> = intent.steps.iter().filter_map(Step::command).cloned().collect();
        if commands.is_empty() && decision.orchestration.is_none() && decision.requeue_after.is_none() {
            return self.dispatcher.rest(id, &seen.observation.pods);
        }
        let (orchestration, step_version) = decision.fence();
        let context = CommandContext { cluster: id.clone(), orchestration: orchestration.to_owned(), step_version };
        self.dispatcher.send(&context, commands);
    }

    /// What no watch shows: objects without our label, why pods are not made, certificates.
    async fn prepare(&self, cluster: &ValkeyCluster, _: &Seen, scope: &Scope) -> bool {
        let looked_up = self.look_up(cluster, &ObjectId::of(cluster), scope).await;
        self.identities.look_up(cluster).await || looked_up
    }

    async fn carry_out(&self, step: &Step, cluster: &ValkeyCluster) -> Result<(), ActError> {
        self.identities
            .carry_out(cluster, step)
            .await
            .map_err(|error| ActError::Own { terminating: error.is_namespace_terminating(), detail: error.to_string() })
    }

    fn published(&self, id: &ObjectId, object: &DynamicObject) {
        self.identities.published(&id.key, &id.uid, object);
    }

    fn start(&self, scope: &Scope, clusters: Store<Stored<ValkeyCluster>>) {
        let (identities, objects) = (self.identities.clone(), clusters.clone());
        scope.metrics.watch_clusters(move || {
            let state = objects.state();
            let readable = state.iter().filter_map(|cluster| cluster.0.as_ref().ok());
            readable.map(|cluster| facts::facts(cluster, identities.expirations(cluster))).collect()
        });
        let (namespace, cache, queues) = (scope.namespace.clone(), scope.cache.clone(), scope.queues.clone());
        self.line.scopes.add(WatchedScope { namespace, cache, clusters, queues });
    }

    fn wakeups(&self, scope: &Scope, clusters: Store<Stored<ValkeyCluster>>) -> Vec<BoxStream<'static, ObjectKey>> {
        vec![
            self.certificates::<ValkeyCertificateBundle>(scope),
            self.certificates::<ValkeyCertificateBinding>(scope),
            self.roots(clusters),
        ]
    }

    fn watched(&self, scope: &Scope, count: usize) {
        let scoped = Scoped { namespace: scope.namespace.clone().unwrap_or_default() };
        scope.metrics.clusters.get_or_create(&scoped).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn end(&self, key: &ObjectKey) {
        self.memories.end(key);
        self.dispatcher.end(key);
        self.identities.forget(key);
    }

    fn keep(&self, known: &HashSet<ObjectKey>, uids: &[String], scope: &Scope) {
        self.line.roster.keep_clusters(scope.namespace.as_deref(), uids);
        self.identities.keep_clusters(scope.namespace.as_deref(), known);
    }
}

/// Begin and end of one orchestration are published once each, also when a successor tells them again.
fn notice(event: &planner::nodes::Event) -> Notice {
    let (reason, message) = (event.reason.to_owned(), event.message.clone());
    Notice { warning: event.warning, reason, replaces: event.about.clone(), message }
}
