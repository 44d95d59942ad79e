//! A ValkeyCluster under test: make it small, change it, wait for what it says about itself, ask its nodes. IO; used by the suites of
//! the product.

use crate::{
    node, operator, process, ready,
    test::{PATIENCE, Test},
    verdict::Verdict,
};
use anyhow::{Context, Result, ensure};
use api::{cluster::ValkeyCluster, names};
use k8s_openapi::{
    api::core::v1::{Event, Pod},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub const IMAGE: &str = "docker.io/valkey/valkey";

/// A cluster in the test's namespace.
pub struct Cluster<'a> {
    pub test: &'a Test,
    pub name: String,
}

/// One Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub warning: bool,
    pub reason: String,
    pub message: String,
    pub times: i32,
}

impl From<Event> for Told {
    fn from(event: Event) -> Self {
        Self {
            warning: event.type_.as_deref() == Some("Warning"),
            reason: event.reason.unwrap_or_default(),
            message: event.message.unwrap_or_default(),
            times: event.count.unwrap_or(1),
        }
    }
}

/// Three primaries without replicas that ask for next to nothing.
pub fn small() -> Value {
    json!({
        "masterCount": 3,
        "replicasPerMaster": 0,
        "valkeyImage": {"name": IMAGE, "tag": "9.1"},
        "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
    })
}

impl<'a> Cluster<'a> {
    /// A small cluster with these fields instead of the small ones'.
    pub async fn create(test: &'a Test, name: &str, fields: Value) -> Result<Self> {
        operator::require(test).await?;
        Self::create_unattended(test, name, fields).await
    }

    /// As `create`, for tests that bring an operator of their own.
    pub async fn create_unattended(test: &'a Test, name: &str, fields: Value) -> Result<Self> {
        test.note(format!("create ValkeyCluster {name} with {fields}"));
        let mut spec = small();
        let (Some(spec_map), Value::Object(fields)) = (spec.as_object_mut(), fields) else {
            anyhow::bail!("the fields of {name} are no object")
        };
        spec_map.extend(fields);
        let object = serde_json::from_value(manifest(name, &spec)).context("the fields are no spec")?;
        let cluster = Self { test, name: name.to_owned() };
        cluster.api().create(&PostParams::default(), &object).await.with_context(|| format!("create {name}"))?;
        Ok(cluster)
    }

    /// One that exists already.
    pub fn named(test: &'a Test, name: &str) -> Self {
        Self { test, name: name.to_owned() }
    }

    pub fn api(&self) -> Api<ValkeyCluster> {
        self.test.api()
    }

    pub async fn get(&self) -> Result<ValkeyCluster> {
        self.api().get(&self.name).await.with_context(|| format!("read {}", self.name))
    }

    /// A merge patch of the spec: null takes a field away.
    pub async fn edit(&self, spec: Value) -> Result<ValkeyCluster> {
        self.test.note(format!("edit {}: {spec}", self.name));
        self.try_edit(spec).await.with_context(|| format!("edit {}", self.name))
    }

    pub async fn try_edit(&self, spec: Value) -> kube::Result<ValkeyCluster> {
        let patch = json!({"spec": spec});
        self.api().patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await
    }

    pub fn pod(&self, ordinal: u32) -> String {
        names::pod(&self.name, ordinal)
    }

    pub fn selector(&self) -> String {
        names::selector_text(&self.name)
    }

    /// Sorted by ordinal as long as there are not more than ten.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let parameters = ListParams::default().labels(&self.selector());
        Ok(self.test.api::<Pod>().list(&parameters).await.context("list the pods")?.items)
    }
}

/// What it says about itself.
impl Cluster<'_> {
    /// Waits until Ready is True for the latest generation.
    pub async fn ready(&self) -> Result<ValkeyCluster> {
        self.says("Ready", "True", None).await?;
        self.get().await
    }

    /// Waits until a condition has this status, and this reason if one is named, for the latest generation.
    pub async fn says(&self, kind: &str, status: &str, reason: Option<&str>) -> Result<Condition> {
        let what = format!("{} to say {kind}={status} {}", self.name, reason.unwrap_or_default());
        self.test
            .wait_for_object::<ValkeyCluster, _>(&self.name, &what, PATIENCE, |cluster| {
                let Some(cluster) = cluster else { return Verdict::not_yet("it does not exist") };
                match condition(cluster, kind) {
                    Some(found) if matches(found, cluster, status, reason) => Verdict::Met(found.clone()),
                    _ => Verdict::NotYet(describe(cluster)),
                }
            })
            .await
    }

    /// What the operator told about this cluster in Events, oldest first.
    pub async fn events(&self) -> Result<Vec<Told>> {
        let fields = format!("involvedObject.kind={},involvedObject.name={}", names::KIND, self.name);
        let events = self.test.api::<Event>().list(&ListParams::default().fields(&fields)).await;
        let mut events = events.context("list the events")?.items;
        events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
        Ok(events.into_iter().map(Told::from).collect())
    }

    pub async fn warnings(&self) -> Result<Vec<Told>> {
        let mut events = self.events().await?;
        events.retain(|event| event.warning);
        Ok(events)
    }
}

/// Into its nodes.
impl Cluster<'_> {
    pub async fn cli(&self, ordinal: u32, arguments: &[&str]) -> Result<String> {
        node::ask(self.test, &self.pod(ordinal), arguments).await
    }

    /// The node's own id, which must outlive its pod.
    pub async fn node_id(&self, ordinal: u32) -> Result<String> {
        let id = self.cli(ordinal, &["cluster", "myid"]).await?;
        ensure!(id.len() == 40, "{} has no node id: {id}", self.pod(ordinal));
        Ok(id)
    }

    pub async fn config(&self, ordinal: u32, parameters: &[&str]) -> Result<BTreeMap<String, String>> {
        let command: Vec<&str> = ["config", "get"].iter().chain(parameters).copied().collect();
        let answer = self.cli(ordinal, &command).await?;
        let mut lines = answer.split('\n').map(|line| line.trim_end().to_owned());
        Ok(std::iter::from_fn(|| Some((lines.next()?, lines.next()?))).collect())
    }

    /// Waits until every pod has these values.
    pub async fn runs_with(&self, pods: u32, wanted: &[(&str, &str)]) -> Result<()> {
        let parameters: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
        let what = format!("CONFIG GET of {} to answer {wanted:?}", self.name);
        self.test
            .wait_for(&what, PATIENCE, async || {
                for ordinal in 0..pods {
                    let has = self.config(ordinal, &parameters).await?;
                    let wrong = wanted.iter().find(|(name, value)| has.get(*name).is_none_or(|has| has != value));
                    if let Some((name, value)) = wrong {
                        let has = has.get(*name);
                        let pod = self.pod(ordinal);
                        return Ok(Verdict::NotYet(format!("{pod} has {name} = {has:?}, wanted is {value:?}")));
                    }
                }
                Ok(Verdict::Met(()))
            })
            .await
    }

    /// Deletes the pods of these ordinals and waits until others have taken their places and are Ready.
    pub async fn replace_pods(&self, ordinals: impl IntoIterator<Item = u32>) -> Result<()> {
        let ordinals: Vec<u32> = ordinals.into_iter().collect();
        for ordinal in &ordinals {
            let deleted = self.test.api::<Pod>().delete(&self.pod(*ordinal), &Default::default()).await;
            let _still_ending = deleted.with_context(|| format!("delete {}", self.pod(*ordinal)))?;
        }
        for ordinal in ordinals {
            let (name, what) = (self.pod(ordinal), format!("{} to be replaced", self.pod(ordinal)));
            // A pod on its way out may have failed; its successor has not.
            let judge = |pod: Option<&Pod>| match ready::pod_ready(pod) {
                Verdict::Never(reason) => Verdict::NotYet(reason),
                other => other,
            };
            self.test.wait_for_object(&name, &what, PATIENCE, judge).await?;
        }
        Ok(())
    }
}

fn manifest(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": names::API_VERSION, "kind": names::KIND, "metadata": {"name": name}, "spec": spec})
}

pub fn condition<'c>(cluster: &'c ValkeyCluster, kind: &str) -> Option<&'c Condition> {
    cluster.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == kind)
}

fn matches(found: &Condition, cluster: &ValkeyCluster, status: &str, reason: Option<&str>) -> bool {
    found.status == status
        && reason.is_none_or(|reason| found.reason == reason)
        && found.observed_generation == cluster.metadata.generation
}

/// All that is not as it should be, for the reason of a wait.
fn describe(cluster: &ValkeyCluster) -> String {
    let Some(status) = &cluster.status else { return "it has no status".to_owned() };
    let lines = status.conditions.iter().map(|condition| {
        let Condition { type_, status, reason, message, .. } = condition;
        format!("{type_}={status} {reason}: {message}")
    });
    let generations = format!("generation {:?}/{:?}", status.observed_generation, cluster.metadata.generation);
    std::iter::once(generations).chain(lines).collect::<Vec<_>>().join("; ")
}

/// Names, UIDs and restarts of pods: equal before and after means that nothing was restarted.
pub fn lives(pods: &[Pod]) -> BTreeMap<String, (String, i32)> {
    let restarts = |pod: &Pod| process::container_statuses(pod).map(|status| status.restart_count).sum();
    pods.iter().map(|pod| (pod.name_any(), (pod.uid().unwrap_or_default(), restarts(pod)))).collect()
}
