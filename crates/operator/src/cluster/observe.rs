//! Observe: everything the planner may ask about one cluster, without asking the API server: from the watches, the line, and what was
//! last looked up (`lookups`).

use super::ClusterKind;
use crate::line::SidecarFacts;
use crate::runtime::{Known, ObjectId, Scope, Snapshot};
use crate::shortened::shortened;
use api::cluster::{LISTED_MODULES, ValkeyCluster, ValkeyClusterStatus};
use api::{names, parameters};
use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::nodes::{NodeObservation, NodeRecord};
use planner::{ChildKey, ChildKind, ClaimFacts, Identity, LineFacts, Observation, Observed, PodFacts, SidecarState};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The definition takes no more parameters; a tenant's sidecar may name any number.
const MOST_TRIED: usize = 100;

/// Everything that was seen of one cluster, and when something is due.
pub struct Seen {
    pub observation: Observation,
    /// How long the certificates may stay unread when nothing is due.
    pub certificates_quiet: Duration,
    /// How long sidecars may still be on their way, after a change of leader.
    pub returning: Option<Duration>,
}

/// What one pass asks with.
struct Pass<'a> {
    id: &'a ObjectId,
    kind: &'a ClusterKind,
    scope: &'a Scope,
}

impl ClusterKind {
    pub(super) fn observed(&self, cluster: &ValkeyCluster, known: &Known<'_, ValkeyClusterStatus>) -> Seen {
        let pass = Pass { id: known.id, kind: self, scope: known.scope };
        let mut observation = from_snapshot(pass.scope.cache.snapshot(&pass.id.key), identity(&cluster.metadata));
        let memory = self.memories.of(pass.id);
        observation.altered_on_arrival = known.state.altered_on_arrival();
        observation.patches_altered_on_arrival = known.state.patches_altered_on_arrival();
        let stateful_set = ChildKey::new(ChildKind::StatefulSet, &pass.id.key.name);
        observation.size_under_way =
            known.state.size_under_way(&stateful_set).and_then(|size| u32::try_from(size).ok());
        memory.lookups.add_to(&mut observation, cluster);
        observation.certificates = self.identities.observe(cluster, &observation.pods);
        observation.references = known.references.clone();
        observation.line = line_facts(&observation, &pass);
        observation.nodes = Some(nodes_seen(&observation, cluster, &pass));
        Seen { observation, certificates_quiet: self.identities.quiet(), returning: self.line.roster.returning() }
    }
}

impl ClusterKind {
    /// Asks for what no watch shows. True when the answers are others than before.
    pub(super) async fn look_up(&self, cluster: &ValkeyCluster, id: &ObjectId, scope: &Scope) -> bool {
        let watched = from_snapshot(scope.cache.snapshot(&id.key), identity(&cluster.metadata));
        let before = self.memories.of(id).lookups;
        let answers = before.ask(cluster, &id.key, scope, &watched).await;
        let zones = join_all(watched.pods.iter().map(|pod| self.zones.look_up(pod, &scope.client))).await;
        let changed = !answers.equal(&before);
        self.memories.change(id, |memory| memory.lookups = answers);
        changed || zones.contains(&true)
    }
}

fn nodes_seen(observation: &Observation, cluster: &ValkeyCluster, pass: &Pass<'_>) -> NodeObservation {
    // What this process decided last is newer than what it published.
    let decided = pass.kind.memories.of(pass.id).decided;
    let published = || cluster.status.as_ref().map(NodeRecord::read);
    let NodeRecord { shards: recorded, orchestration: running, queue } = decided.or_else(published).unwrap_or_default();
    let pods = pass.kind.dispatcher.seen(pass.id, &observation.pods, &pass.kind.zones);
    NodeObservation { pods, recorded, running, queue }
}

fn line_facts(observation: &Observation, pass: &Pass<'_>) -> LineFacts {
    let (roster, cluster) = (&pass.kind.line.roster, &observation.cluster);
    let pods: Vec<&str> = observation.pods.iter().map(|pod| pod.uid.as_str()).collect();
    roster.keep_pods(&cluster.uid, &pods);
    let sidecars = roster.of_cluster(&cluster.uid).iter().map(|facts| sidecar_state(facts)).collect();
    let turned_away = roster.refusals(&cluster.uid).into_iter().collect();
    LineFacts { sidecars, turned_away, returning: roster.returning().is_some() }
}

fn sidecar_state(facts: &SidecarFacts) -> SidecarState {
    let refused = facts.beat.revisions.iter().flat_map(|revisions| &revisions.refused);
    let tried = facts.beat.revisions.iter().flat_map(|revisions| &revisions.tried);
    let tried = tried.take(MOST_TRIED).filter(|tried| parameters::is_name(&tried.name));
    SidecarState {
        pod_uid: facts.pod.pod_uid.clone(),
        connected: facts.connected,
        lost: facts.lost,
        last_heartbeat: Some(facts.last_heartbeat),
        version: shortened(format_args!("{}", facts.version)),
        certificate_expires: Some(facts.certificate.not_after),
        refused: refused.map(|refused| shortened(format_args!("{refused}"))).collect(),
        modules: modules(facts),
        knows_modules: facts.beat.node.as_ref().is_some_and(|node| node.modules.is_some()),
        tried: tried.map(|tried| (tried.name.clone(), shortened(format_args!("{}", tried.refusal)))).collect(),
    }
}

/// None while its Valkey does not answer. A sidecar that is too old to tell them is too old to have them loaded.
fn modules(facts: &SidecarFacts) -> Option<BTreeMap<String, i64>> {
    let node = facts.beat.node.as_ref().filter(|node| !node.run_id.is_empty())?;
    let told = node.modules.iter().flat_map(|list| &list.modules).take(LISTED_MODULES);
    Some(told.map(|module| (shortened(format_args!("{}", module.name)), module.version)).collect())
}

fn identity(metadata: &ObjectMeta) -> Identity {
    Identity {
        name: metadata.name.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation,
        deleting: metadata.deletion_timestamp.is_some(),
    }
}

fn from_snapshot(snapshot: Snapshot, cluster: Identity) -> Observation {
    let strangers = strangers(&snapshot, &cluster.name);
    let objects = snapshot.children.into_iter();
    Observation {
        cluster,
        children: objects.map(|(key, value)| (key, Observed::Object(Value::clone(&value)))).collect(),
        pods: snapshot.pods.iter().map(|pod| PodFacts::clone(pod)).collect(),
        strangers,
        claims: snapshot.claims.iter().map(|claim| ClaimFacts::clone(claim)).collect(),
        ..Observation::default()
    }
}

/// Those that Services send clients to: running, with all the labels that they select.
fn strangers(snapshot: &Snapshot, cluster: &str) -> Vec<String> {
    let selector = names::selector(cluster);
    let is_found = |pod: &PodFacts| selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
    let found = snapshot.strangers.iter().filter(|pod| pod.running && !pod.terminating && is_found(pod));
    found.map(|pod| pod.name.clone()).collect()
}
