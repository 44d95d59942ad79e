//! What no watch shows and is looked up: objects that should be there and are not (one without our label, ours or not, does not show),
//! pods that lost their label, and why pods and volumes could not be made, which Kubernetes tells in Events only. Asked in the
//! background, before the writes; passes use what was answered last.

use crate::runtime::{ObjectKey, Scope, children, claims, cluster_of_pod, plain, pods};
use api::cluster::ValkeyCluster;
use api::names;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use planner::{
    ChildKey, ChildKind, ClaimFacts, CreationFailure, Observation, Observed, PodFacts, asked_for, expected_keys,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Nobody waits longer than this for an answer.
const ANSWER: Duration = Duration::from_secs(3);
/// What is in no watch is asked for so often.
const ASK_AGAIN: Duration = Duration::from_millis(900);
/// Of pods that are missing: most are on their way, and are asked for by name all the same.
const MISSING_ASKED: usize = 8;
/// A StatefulSet younger than this has not had time to fail.
const GRACE_SECONDS: i64 = 1;

/// The last answers.
#[derive(Clone, Debug, Default)]
pub struct Lookups {
    /// None: it is not there.
    children: BTreeMap<ChildKey, Option<Observed>>,
    foreign_claims: Vec<String>,
    lost_pods: Vec<PodFacts>,
    creation_failure: Option<CreationFailure>,
    claim_failure: Option<String>,
    /// When Kubernetes was last asked about pods and volumes.
    asked: Option<Instant>,
}

impl Lookups {
    /// Completes what the watches show.
    pub fn add_to(&self, observation: &mut Observation, cluster: &ValkeyCluster) {
        for key in missing_children(observation, cluster) {
            let unknown = || Some(Observed::Unknown("it is being looked up".to_owned()));
            let answer = self.children.get(&key).cloned().unwrap_or_else(unknown);
            observation.children.extend(answer.map(|answer| (key, answer)));
        }
        observation.foreign_claims.clone_from(&self.foreign_claims);
        let missing = missing_pods(observation);
        observation.pods.extend(self.lost_pods.iter().filter(|pod| missing.contains(&pod.name)).cloned());
        if !missing.is_empty() {
            observation.creation_failure.clone_from(&self.creation_failure);
        }
        let waiting = waiting_claims(observation);
        for claim in observation.claims.iter_mut().filter(|claim| waiting.contains(&claim.uid)) {
            claim.failure.clone_from(&self.claim_failure);
        }
    }

    /// Asks for what the watches do not show of this cluster, and gives the answers.
    pub async fn ask(
        &self,
        cluster: &ValkeyCluster,
        owner: &ObjectKey,
        scope: &Scope,
        watched: &Observation,
    ) -> Lookups {
        let keys = missing_children(watched, cluster);
        let answers = join_all(keys.into_iter().map(|key| look_for(key, owner, scope))).await;
        let mut children = answers.into_iter().collect();
        let foreign_claims = beside_the_stateful_set(&mut children, owner, &scope.client).await;
        if self.asked.is_some_and(|asked| asked.elapsed() < ASK_AGAIN) {
            return Lookups { children, foreign_claims, ..self.clone() };
        }
        let (lost_pods, creation_failure) = about_pods(watched, owner, scope, &self.lost_pods).await;
        let claim_failure = about_claims(watched, scope).await;
        Lookups { children, foreign_claims, lost_pods, creation_failure, claim_failure, asked: Some(Instant::now()) }
    }

    /// Whether they answer the same.
    pub fn equal(&self, other: &Lookups) -> bool {
        self.children == other.children
            && self.foreign_claims == other.foreign_claims
            && self.lost_pods == other.lost_pods
            && self.creation_failure == other.creation_failure
            && self.claim_failure == other.claim_failure
    }
}

fn missing_children(observation: &Observation, cluster: &ValkeyCluster) -> Vec<ChildKey> {
    expected_keys(cluster).into_iter().filter(|key| !observation.children.contains_key(key)).collect()
}

async fn look_for(key: ChildKey, owner: &ObjectKey, scope: &Scope) -> (ChildKey, Option<Observed>) {
    if !scope.cache.is_installed(key.kind) {
        return (key, Some(Observed::NotInstalled));
    }
    let api = children(&scope.client, key.kind, Some(&owner.namespace));
    let observed = match timeout(ANSWER, api.get_opt(&key.name)).await {
        Ok(Ok(found)) => found.map(|found| Observed::Object(plain(key.kind, found))),
        Ok(Err(error)) => Some(Observed::Unknown(error.to_string())),
        Err(_) => Some(Observed::Unknown(format!("the API server gave no answer within {ANSWER:?}"))),
    };
    (key, observed)
}

/// Before a StatefulSet is made: the claims that its pods would take. One that may be in the way unseen keeps it from being made.
async fn beside_the_stateful_set(
    children: &mut BTreeMap<ChildKey, Option<Observed>>,
    owner: &ObjectKey,
    client: &Client,
) -> Vec<String> {
    let key = ChildKey::new(ChildKind::StatefulSet, &owner.name);
    let Some(absent @ None) = children.get_mut(&key) else { return Vec::new() };
    foreign_claims(owner, client).await.unwrap_or_else(|why| {
        *absent = Some(Observed::Unknown(format!("the claims of its pods cannot be looked at: {why}")));
        Vec::new()
    })
}

/// Claims of the names that the pods' have, without the labels that the StatefulSet controller gives them. Of the claims of others only
/// names and labels are read.
async fn foreign_claims(owner: &ObjectKey, client: &Client) -> Result<Vec<String>, String> {
    let api = claims(client, &owner.namespace);
    let list = timeout(ANSWER, api.list_metadata(&ListParams::default())).await;
    let list = list.map_err(|_| format!("the API server gave no answer within {ANSWER:?}"))?;
    let list = list.map_err(|error| error.to_string())?;
    let selector = names::selector(&owner.name);
    let ours = |labels: &BTreeMap<String, String>| selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    let foreign = list.items.iter().filter(|claim| !ours(claim.labels()));
    Ok(foreign.map(ResourceExt::name_any).filter(|name| names::cluster_of_claim(name) == Some(&owner.name)).collect())
}

/// Pods that should be there and are not seen: either they lost our label, or they could not be made.
fn missing_pods(observation: &Observation) -> Vec<String> {
    let stateful_set = observation.stateful_set().filter(|_| observation.stateful_set_is_noticed());
    stateful_set.map(|found| planner::missing(observation, asked_for(found))).unwrap_or_default()
}

async fn about_pods(
    observation: &Observation,
    owner: &ObjectKey,
    scope: &Scope,
    known: &[PodFacts],
) -> (Vec<PodFacts>, Option<CreationFailure>) {
    let missing = missing_pods(observation);
    let Some(stateful_set) = observation.stateful_set().filter(|_| !missing.is_empty()) else {
        return (Vec::new(), None);
    };
    let made = stateful_set.pointer("/status/replicas").and_then(Value::as_u64).unwrap_or_default();
    if made >= u64::from(asked_for(stateful_set)) {
        return (lost_pods(&missing, owner, &scope.client, known).await, None);
    }
    if !is_settled(stateful_set) {
        return (Vec::new(), None);
    }
    // It does not count a pod that it let go.
    let some = missing.get(..missing.len().min(MISSING_ASKED)).unwrap_or_default();
    let lost = lost_pods(some, owner, &scope.client, known).await;
    (lost, creation_failure(stateful_set, observation, scope).await)
}

/// A pod of which the API server says nothing now is taken to be as it was.
async fn lost_pods(missing: &[String], owner: &ObjectKey, client: &Client, known: &[PodFacts]) -> Vec<PodFacts> {
    let api = pods(client, &owner.namespace);
    let answers = join_all(missing.iter().map(|name| timeout(ANSWER, api.get_opt(name)))).await;
    let ours = |pod: &Pod| cluster_of_pod(pod).as_ref() == Some(owner);
    let seen = missing.iter().zip(answers).filter_map(|(name, answer)| match answer {
        Ok(Ok(found)) => found.filter(ours).map(|pod| PodFacts::of(&pod)),
        Ok(Err(_)) | Err(_) => known.iter().find(|pod| pod.name == *name).cloned(),
    });
    seen.collect()
}

fn is_settled(stateful_set: &Value) -> bool {
    let created = stateful_set.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
    let created = created.and_then(|text| text.parse::<Timestamp>().ok());
    created.is_some_and(|created| Timestamp::now().as_second() - created.as_second() >= GRACE_SECONDS)
}

/// The StatefulSet controller tells why it cannot make a pod in Events only.
async fn creation_failure(stateful_set: &Value, observation: &Observation, scope: &Scope) -> Option<CreationFailure> {
    let uid = stateful_set.pointer("/metadata/uid")?.as_str()?;
    let (message, at) = newest_event(uid, &["FailedCreate"], observation, &scope.client).await?;
    message.contains("Pod ").then_some(CreationFailure { message, at })
}

/// Claims without a volume that a pod waits for, by UID.
fn waiting_claims(observation: &Observation) -> Vec<String> {
    let pods = &observation.pods;
    let waits =
        |claim: &&ClaimFacts| !claim.bound && pods.iter().any(|pod| !pod.running && claim.belongs_to(&pod.name));
    observation.claims.iter().filter(waits).map(|claim| claim.uid.clone()).collect()
}

/// Volume controllers, too, tell in Events only. All claims of a cluster are alike: what is said of one is true of all.
async fn about_claims(observation: &Observation, scope: &Scope) -> Option<String> {
    let uid = waiting_claims(observation).into_iter().next()?;
    let event = newest_event(&uid, &["ProvisioningFailed", "FailedBinding"], observation, &scope.client).await;
    event.map(|(message, _)| message)
}

/// Message and time of the newest Event about an object with one of these reasons.
async fn newest_event(
    uid: &str,
    reasons: &[&str],
    observation: &Observation,
    client: &Client,
) -> Option<(String, i64)> {
    let api: Api<Event> = Api::namespaced(client.clone(), &observation.cluster.namespace);
    let selection = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    // Unreadable Events mean that the cause stays unknown; that something is missing is reported anyway.
    let events = timeout(ANSWER, api.list(&selection)).await.ok()?.ok()?;
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
    use crate::client::{Deadlines, clients_of};
    use crate::fake_api::{FakeApi, Silence};
    use serde_json::json;

    #[tokio::test]
    async fn claims_of_the_pods_names_without_our_labels_are_seen_before_the_stateful_set_is_made() {
        let api = FakeApi::start().await;
        let put = |name: &str, labels: &BTreeMap<String, String>| {
            let metadata = json!({ "name": name, "namespace": "test", "labels": labels });
            api.put(&format!("/api/v1/namespaces/test/persistentvolumeclaims/{name}"), json!({ "metadata": metadata }));
        };
        put("data-poc-0", &BTreeMap::new());
        put("data-poc-1", &names::selector("poc"));
        put("data-poc-2", &names::selector("other"));
        ["data-poc-x", "data-poc-01", "data-other-0"].iter().for_each(|name| put(name, &BTreeMap::new()));
        let moment = Duration::from_millis(200);
        let impatient = Deadlines { connect: moment, answer: moment, watch: moment };
        let client = clients_of(api.config.clone(), impatient).unwrap().requests;
        let (owner, key) = (ObjectKey::cluster("test", "poc"), ChildKey::new(ChildKind::StatefulSet, "poc"));
        let mut children = BTreeMap::from([(key.clone(), None)]);
        assert_eq!(beside_the_stateful_set(&mut children, &owner, &client).await, ["data-poc-0", "data-poc-2"]);
        assert_eq!(children.get(&key), Some(&None));
        api.silence(Silence::All);
        assert_eq!(beside_the_stateful_set(&mut children, &owner, &client).await, [""; 0]);
        assert!(matches!(children.get(&key), Some(Some(Observed::Unknown(_)))), "it is not made on that");
        children.clear();
        assert_eq!(beside_the_stateful_set(&mut children, &owner, &client).await, [""; 0], "it is there");
    }

    #[tokio::test]
    async fn a_pod_that_cannot_be_looked_up_is_not_gone() {
        let api = FakeApi::start().await;
        let set =
            json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "poc", "uid": "s", "controller": true }]);
        let metadata = json!({ "name": "poc-0", "namespace": "test", "ownerReferences": set });
        api.put("/api/v1/namespaces/test/pods/poc-0", json!({ "metadata": metadata }));
        let moment = Duration::from_millis(200);
        let impatient = Deadlines { connect: moment, answer: moment, watch: moment };
        let client = clients_of(api.config.clone(), impatient).unwrap().requests;
        let (owner, missing) = (ObjectKey::cluster("test", "poc"), ["poc-0".to_owned()]);
        let found = lost_pods(&missing, &owner, &client, &[]).await;
        assert_eq!(found.len(), 1);
        api.silence(Silence::All);
        assert_eq!(lost_pods(&missing, &owner, &client, &found).await, found);
        api.silence(Silence::None);
        api.remove("/api/v1/namespaces/test/pods/poc-0");
        assert_eq!(lost_pods(&missing, &owner, &client, &found).await, [], "now it is known to be gone");
    }

    #[test]
    fn a_pod_without_our_label_still_belongs_to_its_stateful_set() {
        let pod = serde_json::json!({ "metadata": { "name": names::pod("poc", 0), "namespace": "n", "uid": "u",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "poc", "uid": "s", "controller": true }] } });
        let pod = serde_json::from_value(pod).unwrap();
        assert_eq!(cluster_of_pod(&pod).unwrap().name, "poc");
    }
}
