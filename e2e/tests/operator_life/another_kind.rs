//! The runtime works on any kind: here Greeting, which makes a ConfigMap of a text that another ConfigMap holds. All it has is its
//! types, what it sees, what it plans, and one line of registration.

use anyhow::{Context, Result};
use e2e::{Scenario, Test, Verdict};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::object::HasStatus;
use kube::{Resource, ResourceExt};
use operator::client::Clients;
use operator::runtime::{
    Intent, Kind, Known, ObjectKey, Reference, ReferenceKey, Scope, ScopeSettings, Unreadable, register,
};
use operator::{health::Health, metrics::Metrics, stop};
use planner::{Apply, ChildKey, ChildKind, Step, Why, WriteOutcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: greetings.e2e.valkey.io}
spec:
  group: e2e.valkey.io
  scope: Namespaced
  names: {kind: Greeting, plural: greetings, singular: greeting}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Greeting {
    metadata: ObjectMeta,
    spec: GreetingSpec,
    status: Option<GreetingStatus>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GreetingSpec {
    text_from: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GreetingStatus {
    observed_generation: Option<i64>,
    conditions: Vec<Condition>,
}

impl Resource for Greeting {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Greeting".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "e2e.valkey.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "greetings".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl HasStatus for Greeting {
    type Status = GreetingStatus;

    fn status(&self) -> Option<&GreetingStatus> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<GreetingStatus> {
        &mut self.status
    }
}

#[derive(Default)]
struct GreetingKind {
    ended: Arc<Mutex<Vec<ObjectKey>>>,
}

struct Seen {
    text: Result<String, String>,
    made: Option<Value>,
    failures: Vec<String>,
}

impl Kind for GreetingKind {
    type Object = Greeting;
    type Observation = Seen;
    type Details = ();
    type Status = GreetingStatus;
    const KIND: &'static str = "Greeting";
    const STATUS: &'static str = "Greeting/status";

    fn conditions(status: &GreetingStatus) -> &[Condition] {
        &status.conditions
    }

    fn observed_generation(status: &GreetingStatus) -> Option<i64> {
        status.observed_generation
    }

    fn references(&self, greeting: &Greeting) -> Vec<ReferenceKey> {
        vec![ReferenceKey {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            plural: "configmaps".into(),
            name: greeting.spec.text_from.clone(),
        }]
    }

    async fn observe(&self, _greeting: &Greeting, known: &Known<'_, GreetingStatus>) -> Seen {
        let text = match known.references.values().next() {
            Some(Reference::Known(found)) => {
                Ok(found.pointer("/data/text").and_then(Value::as_str).unwrap_or_default().to_owned())
            }
            Some(Reference::Absent) => Err("the ConfigMap is not there".to_owned()),
            Some(Reference::Unknown(why)) => Err(why.clone()),
            None => Err("nothing is referred to".to_owned()),
        };
        let made = known.scope.cache.snapshot(&known.id.key).children.into_iter().next();
        Seen { text, made: made.map(|(_, value)| Value::clone(&value)), failures: Vec::new() }
    }

    fn plan(
        &self,
        greeting: &Greeting,
        seen: &Seen,
        previous: Option<&GreetingStatus>,
        now: Timestamp,
    ) -> Intent<GreetingStatus> {
        let steps = seen.text.iter().filter_map(|text| step(greeting, text, seen.made.as_ref())).collect();
        let problem = seen.text.as_ref().err().into_iter().chain(&seen.failures).next();
        Intent {
            steps,
            status: status(greeting.metadata.generation, problem.map(String::as_str), previous, now),
            other_statuses: Vec::new(),
            events: Vec::new(),
            silent: greeting.metadata.deletion_timestamp.is_some(),
            requeue_after: Duration::from_secs(60),
            details: (),
        }
    }

    fn wrote(&self, seen: &mut Seen, outcome: WriteOutcome) {
        seen.failures = outcome.failures.into_iter().map(|failure| failure.detail).collect();
    }

    fn unreadable(&self, object: &Unreadable<'_>, previous: Option<&GreetingStatus>, now: Timestamp) -> GreetingStatus {
        status(object.generation, Some(object.error), previous, now)
    }

    fn end(&self, key: &ObjectKey) {
        self.ended.lock().unwrap().push(key.clone());
    }
}

fn step(greeting: &Greeting, text: &str, made: Option<&Value>) -> Option<Step> {
    if made.is_some_and(|made| made["data"]["text"] == text) {
        return None;
    }
    let name = greeting.name_any();
    let labels = json!({"app.kubernetes.io/managed-by": "valkey-operator"});
    let owner = greeting.controller_owner_ref(&())?;
    let metadata =
        json!({"name": name, "namespace": greeting.namespace(), "labels": labels, "ownerReferences": [owner]});
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}});
    let why = if made.is_some() { Why::Changed } else { Why::Missing };
    let uid = made.and_then(|made| made["metadata"]["uid"].as_str()).map(str::to_owned);
    let key = ChildKey::new(ChildKind::ConfigMap, &name);
    Some(Step::Apply(Apply { key, manifest, why, uid, evict: Vec::new() }))
}

fn status(
    generation: Option<i64>,
    problem: Option<&str>,
    previous: Option<&GreetingStatus>,
    now: Timestamp,
) -> GreetingStatus {
    let (word, reason) = if problem.is_some() { ("False", "Waiting") } else { ("True", "Said") };
    let before = previous.and_then(|status| status.conditions.first()).filter(|before| before.status == word);
    let ready = Condition {
        type_: "Ready".into(),
        status: word.into(),
        reason: reason.into(),
        message: problem.unwrap_or("the greeting is said").into(),
        observed_generation: generation,
        last_transition_time: before
            .map_or(Time(planner::whole_second(now)), |before| before.last_transition_time.clone()),
    };
    GreetingStatus { observed_generation: generation, conditions: vec![ready] }
}

#[test]
fn another_kind_is_made_repaired_and_forgotten_by_the_same_runtime() -> Result<()> {
    Scenario::named("another-kind-is-worked-on-by-the-same-runtime").run(async |test| {
        test.apply_yaml(DEFINITION).await?;
        let kind = GreetingKind::default();
        let ended = kind.ended.clone();
        let (stopper, stop) = stop::channel();
        let running = tokio::spawn(Scope::run(scope(test, kind), stop));
        greeting_is_created(test, "first", "words").await?;
        says(test, "first", "False").await?;
        set_text(test, "words", "hello").await?;
        has_text(test, "first", "hello").await?;
        says(test, "first", "True").await?;
        set_text(test, "words", "good morning").await?;
        has_text(test, "first", "good morning").await?;
        test.api::<ConfigMap>().delete("first", &Default::default()).await.context("delete what it made")?;
        has_text(test, "first", "good morning").await?;
        set_text(test, "first", "spoiled").await?;
        has_text(test, "first", "good morning").await?;
        test.api::<ConfigMap>().delete("words", &Default::default()).await.context("delete what it refers to")?;
        says(test, "first", "False").await?;
        assert_eq!(events_about(test, "first").await?, ["Said", "Waiting"], "Ready is True, and then no more");
        test.api::<Greeting>().delete("first", &Default::default()).await.context("delete the Greeting")?;
        test.wait_for("the Greeting to be forgotten", e2e::PATIENCE, async || {
            let seen = ended.lock().unwrap().clone();
            Ok(Verdict::when(seen.iter().any(|key| key.name == "first"), || format!("{seen:?}")))
        })
        .await?;
        stopper.stop();
        running.await.context("the scope ends when asked to")
    })
}

fn scope(test: &Test, kind: GreetingKind) -> ScopeSettings {
    ScopeSettings {
        clients: Clients { requests: test.client(), watches: test.client(), installed: Arc::default() },
        namespace: Some(test.namespace.clone()),
        metrics: Arc::new(Metrics::new()),
        health: Arc::new(Health::default()),
        resync: Duration::from_secs(600),
        kinds: vec![register(kind)],
    }
}

async fn greeting_is_created(test: &Test, name: &str, text_from: &str) -> Result<()> {
    let metadata = json!({"name": name});
    let greeting = json!({"apiVersion": "e2e.valkey.io/v1", "kind": "Greeting", "metadata": metadata, "spec": {"textFrom": text_from}});
    test.wait_for("the API server to know the new kind", e2e::PATIENCE, async || {
        let made = test.api::<Greeting>().patch(name, &PatchParams::apply("somebody"), &Patch::Apply(&greeting)).await;
        Ok(Verdict::when(made.is_ok(), || format!("{made:?}")))
    })
    .await
}

async fn set_text(test: &Test, name: &str, text: &str) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}});
    let parameters = PatchParams::apply("somebody").force();
    test.api::<ConfigMap>().patch(name, &parameters, &Patch::Apply(&map)).await.context("write a ConfigMap").map(drop)
}

async fn has_text(test: &Test, name: &str, text: &str) -> Result<()> {
    let what = format!("ConfigMap {name} to say {text:?}");
    test.wait_for_object(name, &what, e2e::PATIENCE, |map: Option<&ConfigMap>| {
        let data = map.and_then(|map| map.data.as_ref()).and_then(|data| data.get("text"));
        Verdict::when(data.is_some_and(|found| found == text), || format!("{data:?}"))
    })
    .await
}

async fn says(test: &Test, name: &str, ready: &str) -> Result<()> {
    let what = format!("Greeting {name} to say Ready={ready}");
    test.wait_for_object(name, &what, e2e::PATIENCE, |greeting: Option<&Greeting>| {
        let status = greeting.and_then(|greeting| greeting.status.as_ref());
        let found = status.and_then(|status| status.conditions.first());
        Verdict::when(found.is_some_and(|condition| condition.status == ready), || format!("{found:?}"))
    })
    .await
}

/// Their reasons, each once.
async fn events_about(test: &Test, name: &str) -> Result<Vec<String>> {
    let selection = ListParams::default().fields(&format!("involvedObject.name={name},involvedObject.kind=Greeting"));
    let events = test.api::<Event>().list(&selection).await.context("list the Events")?;
    let mut reasons: Vec<String> = events.items.into_iter().filter_map(|event| event.reason).collect();
    reasons.sort();
    reasons.dedup();
    Ok(reasons)
}
