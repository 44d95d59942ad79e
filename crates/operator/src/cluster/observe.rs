//! Observe: everything the planner may ask about one cluster. Mostly from the cache; what is wanted and not in it is looked up,
//! because an object without our label, ours or not, does not show in the watches.

use super::ClusterKind;
use super::memory::{Asked, Memory};
use crate::line::SidecarFacts;
use crate::runtime::{Known, ObjectId, Scope, Snapshot, children, plain, pod_entry, pods};
use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use planner::nodes::{NodeObservation, NodeRecord};
use planner::{
    ChildKey, ClaimFacts, CreationFailure, Identity, LineFacts, Observation, Observed, PodFacts, SidecarState,
    asked_for, expected_keys,
};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// A pass over a cluster, and with it a failover, is not held up longer than this by an API server that does not answer.
const LOOKUP: Duration = Duration::from_secs(3);
/// What is in no watch is asked for so often.
const ASK_AGAIN: Duration = Duration::from_millis(900);
/// A StatefulSet younger than this has not had time to fail.
const GRACE_SECONDS: i64 = 1;

/// Everything that was seen of one cluster, and when something is due.
pub struct Seen {
    pub observation: Observation,
    /// How long until the certificates are to be looked after.
    pub identity_due: Option<Duration>,
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
    pub(super) async fn observed(&self, cluster: &ValkeyCluster, known: &Known<'_, ValkeyClusterStatus>) -> Seen {
        let pass = Pass { id: known.id, kind: self, scope: known.scope };
        let mut observation = from_snapshot(pass.scope.cache.snapshot(&pass.id.key), identity(&cluster.metadata));
        let memory = self.memories.of(pass.id);
        observation.altered_on_arrival = known.state.altered_on_arrival();
        observation.pods_altered_on_arrival = known.state.pods_altered_on_arrival();
        observation.identity = memory.identity();
        look_for_children(&mut observation, cluster, &pass).await;
        look_for_pods(&mut observation, &pass).await;
        look_for_claim_failures(&mut observation, &pass).await;
        observation.line = line_facts(&observation, &pass);
        observation.nodes = Some(nodes_seen(&observation, cluster, &pass).await);
        Seen { observation, identity_due: memory.identity_due(), returning: self.line.roster.returning() }
    }
}

async fn nodes_seen(observation: &Observation, cluster: &ValkeyCluster, pass: &Pass<'_>) -> NodeObservation {
    let zones = join_all(observation.pods.iter().map(|pod| pass.kind.zones.of(pod, &pass.scope.client))).await;
    let pods = pass.kind.dispatcher.seen(pass.id, &observation.pods, zones);
    // What this process decided last is newer than what it published.
    let decided = pass.kind.memories.of(pass.id).decided;
    let published = || cluster.status.as_ref().map(NodeRecord::read);
    let NodeRecord { shards: recorded, orchestration: running, queue } = decided.or_else(published).unwrap_or_default();
    NodeObservation { pods, recorded, running, queue }
}

fn line_facts(observation: &Observation, pass: &Pass<'_>) -> LineFacts {
    let (roster, cluster) = (&pass.kind.line.roster, &observation.cluster);
    let pods: Vec<&str> = observation.pods.iter().map(|pod| pod.uid.as_str()).collect();
    roster.keep_pods(&cluster.uid, &pods);
    let sidecars = roster.of_cluster(&cluster.uid).iter().map(|facts| sidecar_state(facts)).collect();
    LineFacts { sidecars, returning: roster.returning().is_some() }
}

fn sidecar_state(facts: &SidecarFacts) -> SidecarState {
    let refused = facts.beat.revisions.as_ref().map(|revisions| revisions.refused.clone());
    SidecarState {
        pod_uid: facts.pod.pod_uid.clone(),
        connected: facts.connected,
        lost: facts.lost,
        last_heartbeat: Some(facts.last_heartbeat),
        version: facts.version.clone(),
        certificate_expires: Some(facts.certificate.not_after),
        refused: refused.unwrap_or_default(),
    }
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
    let objects = snapshot.children.into_iter();
    Observation {
        cluster,
        children: objects.map(|(key, value)| (key, Observed::Object(Value::clone(&value)))).collect(),
        pods: snapshot.pods.iter().map(|pod| PodFacts::clone(pod)).collect(),
        claims: snapshot.claims.iter().map(|claim| ClaimFacts::clone(claim)).collect(),
        ..Observation::default()
    }
}

async fn look_for_children(observation: &mut Observation, cluster: &ValkeyCluster, pass: &Pass<'_>) {
    let keys = expected_keys(cluster).into_iter().filter(|key| !observation.children.contains_key(key));
    let namespace = &observation.cluster.namespace;
    let found = join_all(keys.map(|key| look_for(key, namespace, pass))).await;
    observation.children.extend(found.into_iter().flatten());
}

/// None: it is not there.
async fn look_for(key: ChildKey, namespace: &str, pass: &Pass<'_>) -> Option<(ChildKey, Observed)> {
    if !pass.scope.cache.is_installed(key.kind) {
        return Some((key, Observed::NotInstalled));
    }
    let api = children(&pass.scope.client, key.kind, Some(namespace));
    let observed = match timeout(LOOKUP, api.get_opt(&key.name)).await {
        Ok(Ok(found)) => Observed::Object(plain(key.kind, found?)),
        Ok(Err(error)) => Observed::Unknown(error.to_string()),
        Err(_) => Observed::Unknown(format!("the API server gave no answer within {LOOKUP:?}")),
    };
    Some((key, observed))
}

/// Pods that should be there and are not seen: either they lost our label, or they could not be made.
async fn look_for_pods(observation: &mut Observation, pass: &Pass<'_>) {
    let Some(stateful_set) = observation.stateful_set().filter(|_| observation.stateful_set_is_noticed()) else {
        return;
    };
    let missing = planner::missing(observation, asked_for(stateful_set));
    if missing.is_empty() {
        return;
    }
    let made = stateful_set.pointer("/status/replicas").and_then(Value::as_u64).unwrap_or_default();
    if made >= u64::from(asked_for(stateful_set)) {
        let asking = lost_pods(&missing, observation, pass);
        let found = asked_lately(|memory| &mut memory.lost_pods, asking, pass).await;
        observation.pods.extend(found.into_iter().filter(|pod| missing.contains(&pod.name)));
    } else if is_settled(stateful_set) {
        let asking = creation_failure(stateful_set, observation, pass);
        let found = asked_lately(|memory| &mut memory.creation_failure, asking, pass).await;
        observation.creation_failure = found;
    }
}

async fn lost_pods(missing: &[String], observation: &Observation, pass: &Pass<'_>) -> Vec<PodFacts> {
    let api = pods(&pass.scope.client, &observation.cluster.namespace);
    let found = join_all(missing.iter().map(|name| timeout(LOOKUP, api.get_opt(name)))).await;
    let pods = found.into_iter().filter_map(|answer| answer.ok()?.ok().flatten());
    let ours = pods.filter(|pod| pod_entry(pod).is_some_and(|entry| entry.owner == pass.id.key));
    ours.map(|pod| PodFacts::of(&pod)).collect()
}

fn is_settled(stateful_set: &Value) -> bool {
    let created = stateful_set.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
    let created = created.and_then(|text| text.parse::<Timestamp>().ok());
    created.is_some_and(|created| Timestamp::now().as_second() - created.as_second() >= GRACE_SECONDS)
}

/// Passes follow each other within milliseconds while nodes are told something: a question to the API server is too much for each.
async fn asked_lately<T: Clone>(
    remembered: impl Fn(&mut Memory) -> &mut Option<Asked<T>>,
    asking: impl Future<Output = T>,
    pass: &Pass<'_>,
) -> T {
    let known = pass.kind.memories.change(pass.id, |memory| remembered(memory).clone());
    if let Some((_, known)) = known.filter(|(asked, _)| asked.elapsed() < ASK_AGAIN) {
        return known;
    }
    let found = asking.await;
    pass.kind.memories.change(pass.id, |memory| *remembered(memory) = Some((Instant::now(), found.clone())));
    found
}

/// The StatefulSet controller tells why it cannot make a pod in Events only.
async fn creation_failure(stateful_set: &Value, observation: &Observation, pass: &Pass<'_>) -> Option<CreationFailure> {
    let uid = stateful_set.pointer("/metadata/uid")?.as_str()?;
    let (message, at) = newest_event(uid, &["FailedCreate"], observation, pass).await?;
    message.contains("Pod ").then_some(CreationFailure { message, at })
}

/// Volume controllers, too, tell in Events only. All claims of a cluster are alike: what is said of one is true of all.
async fn look_for_claim_failures(observation: &mut Observation, pass: &Pass<'_>) {
    let all = &observation.pods;
    let waits = |claim: &ClaimFacts| !claim.bound && all.iter().any(|pod| !pod.running && claim.belongs_to(&pod.name));
    let waiting: Vec<usize> =
        observation.claims.iter().enumerate().filter(|(_, claim)| waits(claim)).map(|(position, _)| position).collect();
    let first = waiting.first().and_then(|position| observation.claims.get(*position)).map(|claim| claim.uid.clone());
    let Some(uid) = first else { return };
    let asking = async {
        let event = newest_event(&uid, &["ProvisioningFailed", "FailedBinding"], observation, pass).await;
        event.map(|(message, _)| message)
    };
    let failure = asked_lately(|memory| &mut memory.claim_failure, asking, pass).await;
    for (position, claim) in observation.claims.iter_mut().enumerate() {
        claim.failure = failure.clone().filter(|_| waiting.contains(&position));
    }
}

/// Message and time of the newest Event about an object with one of these reasons.
async fn newest_event(
    uid: &str,
    reasons: &[&str],
    observation: &Observation,
    pass: &Pass<'_>,
) -> Option<(String, i64)> {
    let api: Api<Event> = Api::namespaced(pass.scope.client.clone(), &observation.cluster.namespace);
    let selection = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    // Unreadable Events mean that the cause stays unknown; that something is missing is reported anyway.
    let events = timeout(LOOKUP, api.list(&selection)).await.ok()?.ok()?;
    let fitting =
        events.items.iter().filter(|event| event.reason.as_deref().is_some_and(|reason| reasons.contains(&reason)));
    let newest = fitting.max_by_key(|event| seconds(event))?;
    Some((newest.message.clone()?, seconds(newest)))
}

fn seconds(event: &Event) -> i64 {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    series.or(last).or(first).map_or(0, |time| time.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::names;

    #[test]
    fn a_pod_without_our_label_still_belongs_to_its_stateful_set() {
        let pod = serde_json::json!({ "metadata": { "name": names::pod("poc", 0), "namespace": "n", "uid": "u",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "poc", "uid": "s", "controller": true }] } });
        let pod = serde_json::from_value(pod).unwrap();
        assert_eq!(pod_entry(&pod).unwrap().owner.name, "poc");
    }
}
