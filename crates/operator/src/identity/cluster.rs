//! The identity of one cluster: observe → plan → act → publish. Called at each pass over the cluster, by the leader only.

use super::cluster_reading::{Keys, Reading};
use super::cluster_writing::{Subject, binding_manifest, bundle_manifest};
use super::in_force::InForce;
use super::{Error, Identities};
use crate::runtime::ObjectKey;
use api::certificates::{RotationPolicy, names};
use api::cluster::ValkeyCluster;
use api::cluster::effective::{self, Layers};
use api::duration;
use api::names::{self as common, API_VERSION, MANAGER};
use certificates::{
    ClusterPlan, ClusterView, LeafStep, PodView, Policy, binding_spec, binding_status, bundle_status, cluster_plan,
};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use pki::{Party, Percent, Thumbprint};
use planner::PodFacts;
use planner::whole_second;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// A Secret that is gone is noticed within this time, or longer where there are very many clusters.
const QUIET: Duration = Duration::from_secs(30);
const PER_CLUSTER: Duration = Duration::from_millis(100);
/// After something went wrong, while an orchestration postpones a change, and until there is a root.
const SOON: Duration = Duration::from_secs(2);
/// What the leader's first pass over the root may take.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const DAY: u64 = 24 * 60 * 60;

/// What a pass over the cluster needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFacts {
    /// The Secret that pods mount is there; or what it waits for, in words.
    pub ready: Result<(), String>,
    /// When to look at the cluster again, for its certificates' sake.
    pub requeue_after: Duration,
}

impl Identities {
    /// Makes and repairs what is missing. Never fails: what could not be done is waited for, and tried again.
    pub async fn ensure(&self, cluster: &ValkeyCluster, pods: &[PodFacts]) -> IdentityFacts {
        let nothing_to_do = IdentityFacts { ready: Ok(()), requeue_after: QUIET };
        if !self.settings.built_in {
            return nothing_to_do;
        }
        if cluster.metadata.deletion_timestamp.is_some() {
            self.wait_for_nobody(cluster);
            return nothing_to_do;
        }
        let Some(in_force) = self.root_in_force().await else { return self.without_root() };
        match self.pass(cluster, pods, &in_force).await {
            Ok(facts) => facts,
            Err(error) => {
                tracing::warn!(cluster = cluster.name_any(), namespace = cluster.namespace(), %error, "identity");
                IdentityFacts { ready: Err(format!("the identity of the sidecars: {error}")), requeue_after: SOON }
            }
        }
    }

    /// The bundle or the binding of a cluster was seen. True if that is news.
    pub fn noticed(&self, cluster: &ObjectKey, name: &str, version: Option<&str>) -> bool {
        self.memories.noticed(cluster, name, version)
    }

    /// Forgets clusters of one scope that are no longer there.
    pub fn keep_clusters(&self, scope: Option<&str>, clusters: &HashSet<ObjectKey>) {
        self.memories.keep(scope, clusters);
    }

    /// The cluster is gone.
    pub fn forget(&self, cluster: &ObjectKey) {
        self.memories.forget(cluster);
    }

    /// A leader that has just begun finds the root in a moment: until then nothing needs to be said about it.
    async fn root_in_force(&self) -> Option<Arc<InForce>> {
        let mut changes = self.in_force.subscribe();
        if self.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            let _ = timeout(FIRST_LOOK, changes.wait_for(Option::is_some)).await;
        }
        changes.borrow().clone()
    }

    fn without_root(&self) -> IdentityFacts {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let why = trouble.unwrap_or_else(|| "it is being made".to_owned());
        let waiting = format!("the root of all identities, ValkeyCA {}: {why}", names::ROOT);
        IdentityFacts { ready: Err(waiting), requeue_after: SOON }
    }

    async fn pass(
        &self,
        cluster: &ValkeyCluster,
        pods: &[PodFacts],
        in_force: &InForce,
    ) -> Result<IdentityFacts, Error> {
        let (subject, uid, now) = (Subject::of(cluster)?, cluster.uid().unwrap_or_default(), Timestamp::now());
        let pods: Vec<PodFacts> = pods.iter().filter(|pod| !pod.terminating).cloned().collect();
        let mut known = self.memories.fresh(&subject.name, &uid).map(|reading| (Reading::clone(&reading), None));
        if known.as_ref().is_none_or(|(reading, _)| self.has_work(cluster, reading, &pods, in_force, now)) {
            let (reading, keys) = self.read_cluster(&subject.name, &uid, in_force, now).await?;
            known = Some((reading, Some(keys)));
        }
        let Some((reading, keys)) = known else { return Ok(facts(Ok(()), None, now, 1)) };
        if reading.bundle.is_none() && effective::resolve(Layers::of(&cluster.spec)).spec.paused {
            return Ok(IdentityFacts { ready: Ok(()), requeue_after: QUIET });
        }
        self.settle(cluster, &subject, (reading, keys.unwrap_or_default()), &pods, in_force, now).await
    }

    fn has_work(
        &self,
        cluster: &ValkeyCluster,
        reading: &Reading,
        pods: &[PodFacts],
        in_force: &InForce,
        now: Timestamp,
    ) -> bool {
        let plan = cluster_plan(&self.view(cluster, reading, pods, in_force), &policy(cluster, reading), now);
        matches!(plan.leaf, LeafStep::Issue(_) | LeafStep::WriteRoots)
    }

    fn view(&self, cluster: &ValkeyCluster, reading: &Reading, pods: &[PodFacts], in_force: &InForce) -> ClusterView {
        let uid = cluster.uid().unwrap_or_default();
        let sidecars = self.parties.sidecars(&uid);
        let shown = |pod: &PodFacts| sidecars.iter().find(|party| party.pod_uid == pod.uid)?.presents.clone();
        let pod = |pod: &PodFacts| PodView {
            name: pod.name.clone(),
            presents: shown(pod).map(|text| Thumbprint::recorded(&text)),
        };
        ClusterView {
            signing: in_force.root.authority.thumbprint(),
            trusted: in_force.thumbprints(),
            intermediate: reading.intermediate.clone(),
            leaf: reading.leaf.clone(),
            known: reading.had_a_leaf(),
            orchestrating: self.parties.orchestrating(&uid),
            pods: pods.iter().filter(|pod| pod.running).map(pod).collect(),
        }
    }

    async fn settle(
        &self,
        cluster: &ValkeyCluster,
        subject: &Subject,
        read: (Reading, Keys),
        pods: &[PodFacts],
        in_force: &InForce,
        now: Timestamp,
    ) -> Result<IdentityFacts, Error> {
        let policy = policy(cluster, &read.0);
        let plan = cluster_plan(&self.view(cluster, &read.0, pods, in_force), &policy, now);
        let mut reading = self.act_on_cluster(subject, &plan, &policy, in_force, read, now).await?;
        let view = self.view(cluster, &reading, pods, in_force);
        let published = self.publish_identity(subject, &mut reading, &view, &plan, &policy, now).await;
        self.note_parties(subject, &cluster.uid().unwrap_or_default(), &reading, pods);
        let ready = match (&reading.leaf, reading.leaf.whole()) {
            (_, Some(leaf)) => {
                self.tell(&subject.name.namespace, leaf, reading.written, pods).await;
                Ok(())
            }
            (other, None) => Err(format!("the certificate of the sidecars: {}", reason(other))),
        };
        let postponed = matches!(plan.leaf, LeafStep::Postpone(_));
        let next = cluster_plan(&view, &policy, now).next;
        self.memories.remember(&subject.name, Arc::new(reading));
        published?;
        let facts = facts(ready, next, now, self.memories.len());
        Ok(if postponed { IdentityFacts { requeue_after: facts.requeue_after.min(SOON), ..facts } } else { facts })
    }

    /// A cluster that is being deleted gets no new certificates: waiting for it would hold the root up for all others.
    fn wait_for_nobody(&self, cluster: &ValkeyCluster) {
        let name = ObjectKey::cluster(cluster.namespace().unwrap_or_default(), cluster.name_any());
        self.memories.set_parties(&name, &cluster.uid().unwrap_or_default(), Vec::new());
    }

    /// What a change of root waits for in this cluster.
    fn note_parties(&self, subject: &Subject, uid: &str, reading: &Reading, pods: &[PodFacts]) {
        let sidecars = self.parties.sidecars(uid);
        let parties = pods.iter().filter(|pod| pod.running).map(|pod| {
            let sidecar = sidecars.iter().find(|party| party.pod_uid == pod.uid);
            let shown = sidecar.and_then(|party| party.presents.as_deref()).map(Thumbprint::recorded);
            let leaf = reading.leaf.whole().filter(|leaf| shown.as_ref() == Some(&leaf.thumbprint));
            let roots = sidecar.and_then(|party| party.trusted_roots.as_ref());
            Party {
                name: format!("{}/{}", subject.name.namespace, pod.name),
                trusts: roots.map(|roots| roots.iter().map(|text| Thumbprint::recorded(text)).collect()),
                presents: leaf.map(|leaf| leaf.root.clone()),
            }
        });
        self.memories.set_parties(&subject.name, uid, parties.collect());
    }

    async fn publish_identity(
        &self,
        subject: &Subject,
        reading: &mut Reading,
        view: &ClusterView,
        plan: &ClusterPlan,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (namespace, name) = (&subject.name.namespace, &subject.name.name);
        let (bundles, bindings) = (self.bundles(namespace), self.bindings(namespace));
        let (bundle_name, binding_name) = (names::bundle(name), names::binding(name));
        let manifest = bundle_manifest(subject, reading);
        if let Some(applied) = self.apply_object(&bundles, reading.bundle.as_ref(), &manifest, &bundle_name).await? {
            reading.bundle = Some(applied);
        }
        let uid = reading.bundle.as_ref().and_then(ResourceExt::uid).unwrap_or_default();
        if let Some(leaf) = reading.leaf.whole() {
            let before = reading.binding.as_ref().map(|binding| &binding.spec);
            let place = (bundle_name.as_str(), &*common::mtls_secret(name));
            let spec = json!(binding_spec(name, leaf, place, &view.pods, before, now));
            let manifest = binding_manifest(subject, &uid, &spec);
            let live = reading.binding.as_ref();
            if let Some(applied) = self.apply_object(&bindings, live, &manifest, &binding_name).await? {
                reading.binding = Some(applied);
            }
        }
        self.publish_statuses(subject, reading, view, plan, policy, whole_second(now)).await
    }

    async fn publish_statuses(
        &self,
        subject: &Subject,
        reading: &mut Reading,
        view: &ClusterView,
        plan: &ClusterPlan,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), Error> {
        let namespace = &subject.name.namespace;
        if let Some(bundle) = &reading.bundle {
            let before = bundle.status.clone().unwrap_or_default();
            let previous = (&before, bundle.metadata.generation);
            let next = json!(bundle_status(view, plan, policy, &subject.scope.identity(), previous, now));
            if bundle.status.is_none() || json!(before) != next {
                let patch = status_patch("ValkeyCertificateBundle", &bundle.name_any(), &next);
                self.metrics.write("apply", "ValkeyCertificateBundle/status");
                let answer =
                    self.bundles(namespace).patch_status(&bundle.name_any(), &ours(), &Patch::Apply(&patch)).await;
                reading.bundle = Some(answer.map_err(|error| Error::write("the status of the bundle", &error))?);
            }
        }
        if let Some(binding) = &reading.binding {
            let before = binding.status.clone().unwrap_or_default();
            let next = json!(binding_status(view, plan, policy, (&before, binding.metadata.generation), now));
            if binding.status.is_none() || json!(before) != next {
                let patch = status_patch("ValkeyCertificateBinding", &binding.name_any(), &next);
                self.metrics.write("apply", "ValkeyCertificateBinding/status");
                let answer =
                    self.bindings(namespace).patch_status(&binding.name_any(), &ours(), &Patch::Apply(&patch)).await;
                reading.binding = Some(answer.map_err(|error| Error::write("the status of the binding", &error))?);
            }
        }
        Ok(())
    }
}

fn ours() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

fn status_patch(kind: &str, name: &str, status: &Value) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": name }, "status": status })
}

fn reason<T>(found: &certificates::Found<T>) -> String {
    match found {
        certificates::Found::Unreadable(why) => why.clone(),
        other => other.lack().unwrap_or_else(|| "it is being made".to_owned()),
    }
}

/// A spec that the schema should have refused is taken for the default.
fn policy(cluster: &ValkeyCluster, reading: &Reading) -> Policy {
    let wish = effective::resolve(Layers::of(&cluster.spec)).spec.operator_mtls;
    let six_hours = Duration::from_secs(6 * 60 * 60);
    let validity = wish.client_cert_validity.parse::<duration::Duration>().map_or(six_hours, |wish| wish.to_std());
    let rotation = reading.bundle.as_ref().map(|bundle| bundle.spec.rotation_policy.clone()).unwrap_or_default();
    let RotationPolicy { auto_rotate, renew_before_days } = rotation;
    let days = u64::try_from(renew_before_days).unwrap_or_default();
    Policy {
        validity,
        percent: Percent::try_from(i64::from(wish.rotate_before_percent)).unwrap_or(Percent::EARLIEST),
        renew_before: auto_rotate.then_some(Duration::from_secs(days * DAY)),
    }
}

fn facts(ready: Result<(), String>, next: Option<Timestamp>, now: Timestamp, clusters: usize) -> IdentityFacts {
    let clusters = u32::try_from(clusters).unwrap_or(u32::MAX);
    let quiet = QUIET.max(PER_CLUSTER.saturating_mul(clusters)).mul_f64(0.75 + fastrand::f64() * 0.25);
    let due = next.map(|next| next.duration_since(now).try_into().unwrap_or(Duration::ZERO));
    // A moment that has come is looked at soon, and not at once again and again.
    let requeue_after = due.map_or(quiet, |due: Duration| quiet.min(due.max(Duration::from_millis(500))));
    IdentityFacts { ready, requeue_after }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
