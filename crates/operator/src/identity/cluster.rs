//! The certificates of one cluster: what is known of them for the plan, and the steps of the plan that concern them. The leader only.

use super::cluster_reading::Reading;
use super::cluster_writing::Subject;
use super::in_force::InForce;
use super::{Error, Identities};
use crate::runtime::ObjectKey;
use api::certificates::{RotationPolicy, ValkeyCertificateBinding, ValkeyCertificateBundle, names};
use api::cluster::ValkeyCluster;
use api::cluster::effective::{self, Layers};
use api::duration;
use api::stored::Stored;
use certificates::{ClusterView, PodView, Policy};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::object::HasStatus;
use pki::{Party, Percent, Thumbprint};
use planner::{BINDING, BUNDLE, Certificates, CertificatesRead, PodFacts, Step};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// A Secret that is gone is noticed within this time, or longer where there are very many clusters.
const QUIET: Duration = Duration::from_secs(30);
const PER_CLUSTER: Duration = Duration::from_millis(100);
/// What the leader's first pass over the root may take.
const FIRST_READ: Duration = Duration::from_secs(1);
const DAY: u64 = 24 * 60 * 60;

impl Identities {
    /// What is known of a cluster's certificates. Asks nobody.
    pub fn observe(&self, cluster: &ValkeyCluster, pods: &[PodFacts]) -> Certificates {
        if !self.settings.built_in {
            return Certificates::Elsewhere;
        }
        let (key, uid) = identifiers(cluster);
        if cluster.metadata.deletion_timestamp.is_some() {
            // It gets no new certificates: waiting for its sidecars would hold the root up for all others.
            self.memories.set_parties(&key, &uid, Vec::new());
            return Certificates::Elsewhere;
        }
        let in_force = self.in_force.borrow().clone();
        match (self.memories.known(&key, &uid), in_force) {
            (None, _) | (Some(Ok(_)), None) => Certificates::Unread,
            (Some(Err(trouble)), _) => Certificates::Waiting(trouble),
            (Some(Ok(reading)), Some(in_force)) => self.read(cluster, &reading, pods, &in_force),
        }
    }

    fn read(&self, cluster: &ValkeyCluster, reading: &Reading, pods: &[PodFacts], in_force: &InForce) -> Certificates {
        let pods: Vec<&PodFacts> = pods.iter().filter(|pod| pod.running && !pod.terminating).collect();
        let subject = match Subject::of(cluster) {
            Ok(subject) => subject,
            Err(error) => return Certificates::Waiting(trouble(&error)),
        };
        self.note_parties(&subject, reading, &pods);
        Certificates::Read(Box::new(CertificatesRead {
            view: self.view(reading, &pods, in_force),
            policy: policy(cluster, reading),
            id: subject.scope.identity(),
            bundle: reading.bundle.clone(),
            binding: reading.binding.clone(),
            written: reading.written,
            foreign: reading.foreign.clone(),
            immutable: reading.immutable.clone(),
            made: self.memories.made(&subject.name, &reading.cluster_uid),
        }))
    }

    /// Reads what is stored, unless that was done a moment ago. True when it is other than what was known.
    pub async fn look_up(&self, cluster: &ValkeyCluster) -> bool {
        let (key, uid) = identifiers(cluster);
        let idle = !self.settings.built_in || cluster.metadata.deletion_timestamp.is_some();
        if idle || self.memories.is_fresh(&key, &uid) {
            return false;
        }
        let read = match self.root_in_force().await {
            Some(in_force) => self.read_cluster(&key, &uid, &in_force, Timestamp::now()).await,
            None => return self.memories.remember(&key, &uid, Err(self.without_root())),
        };
        if let Err(error) = &read {
            tracing::warn!(cluster = key.name, namespace = key.namespace, %error, "identity");
        }
        let reading = read.map(|(reading, _)| Arc::new(reading)).map_err(|error| trouble(&error));
        self.memories.remember(&key, &uid, reading)
    }

    /// A step about certificates. What it was planned on is read again, with the keys, and has to be the same.
    pub async fn carry_out(&self, cluster: &ValkeyCluster, step: &Step) -> Result<(), Error> {
        let (subject, (key, uid)) = (Subject::of(cluster)?, identifiers(cluster));
        if let Step::ShowCertificate { kind, manifest } = step {
            let applied = self.apply_shown(kind, &key.namespace, manifest).await?;
            self.published(&key, &uid, &applied);
            return Ok(());
        }
        let in_force = self.in_force.borrow().clone().ok_or_else(|| Error::Issue("there is no root".to_owned()))?;
        let now = Timestamp::now();
        let (reading, keys) = self.read_cluster(&key, &uid, &in_force, now).await?;
        let present = reading.leaf.whole().map(|leaf| leaf.thumbprint.clone());
        let policy = policy(cluster, &reading);
        let done = match step {
            Step::IssueCertificate { why, intermediate, replaces } if *replaces == present => {
                let made = (why, intermediate.as_ref());
                self.issue(&subject, made, &policy, &in_force, (reading, keys), now).await?
            }
            Step::WriteRoots { beside } if Some(beside) == present.as_ref() => {
                self.write_roots(&subject, &in_force, (reading, keys), now).await?
            }
            _ => {
                self.memories.outdated(&key);
                return Err(Error::Issue("another certificate was put in its place meanwhile".to_owned()));
            }
        };
        self.memories.remember(&key, &uid, Ok(Arc::new(done)));
        Ok(())
    }

    /// An object that shows certificates, as the API server has it now.
    pub fn published(&self, cluster: &ObjectKey, uid: &str, object: &DynamicObject) {
        let Some(Ok(reading)) = self.memories.known(cluster, uid) else { return };
        let mut reading = Reading::clone(&reading);
        match object.types.as_ref().map(|types| types.kind.as_str()) {
            Some(BUNDLE) => reading.bundle = typed::<ValkeyCertificateBundle>(object).or(reading.bundle),
            Some(BINDING) => reading.binding = typed::<ValkeyCertificateBinding>(object).or(reading.binding),
            _ => return,
        }
        self.memories.remember(cluster, uid, Ok(Arc::new(reading)));
    }

    /// When a cluster's certificates end, as they were last read.
    pub fn expirations(&self, cluster: &ValkeyCluster) -> Vec<(&'static str, Timestamp)> {
        let (key, uid) = identifiers(cluster);
        let Some(Ok(reading)) = self.memories.known(&key, &uid) else { return Vec::new() };
        let intermediate = reading.intermediate.whole().map(|found| ("intermediate", found.lifetime.expires_at));
        let leaf = reading.leaf.whole().map(|found| ("leaf", found.lifetime.expires_at));
        intermediate.into_iter().chain(leaf).collect()
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

    /// How long a cluster's certificates may stay unread when nothing is due.
    pub fn quiet(&self) -> Duration {
        let clusters = u32::try_from(self.memories.len()).unwrap_or(u32::MAX);
        QUIET.max(PER_CLUSTER.saturating_mul(clusters)).mul_f64(0.75 + fastrand::f64() * 0.25)
    }

    /// A leader that has just begun finds the root in a moment: until then nothing needs to be said about it.
    async fn root_in_force(&self) -> Option<Arc<InForce>> {
        let mut changes = self.in_force.subscribe();
        if self.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            let _ = timeout(FIRST_READ, changes.wait_for(Option::is_some)).await;
        }
        changes.borrow().clone()
    }

    fn without_root(&self) -> String {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let why = trouble.unwrap_or_else(|| "it is being made".to_owned());
        format!("the root of all identities, ValkeyCA {}: {why}", names::ROOT)
    }

    fn view(&self, reading: &Reading, pods: &[&PodFacts], in_force: &InForce) -> ClusterView {
        let sidecars = self.parties.sidecars(&reading.cluster_uid);
        let shown = |pod: &PodFacts| sidecars.iter().find(|party| party.pod_uid == pod.uid)?.presents.clone();
        let pod = |pod: &&PodFacts| PodView {
            name: pod.name.clone(),
            presents: shown(pod).map(|text| Thumbprint::recorded(&text)),
        };
        ClusterView {
            signing: in_force.root.authority.thumbprint(),
            trusted: in_force.thumbprints(),
            intermediate: reading.intermediate.clone(),
            leaf: reading.leaf.clone(),
            known: reading.had_a_leaf(),
            orchestrating: self.parties.orchestrating(&reading.cluster_uid),
            pods: pods.iter().map(pod).collect(),
        }
    }

    /// What a change of root waits for in this cluster.
    fn note_parties(&self, subject: &Subject, reading: &Reading, pods: &[&PodFacts]) {
        let sidecars = self.parties.sidecars(&reading.cluster_uid);
        let parties = pods.iter().map(|pod| {
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
        self.memories.set_parties(&subject.name, &reading.cluster_uid, parties.collect());
    }
}

fn identifiers(cluster: &ValkeyCluster) -> (ObjectKey, String) {
    let key = ObjectKey::cluster(cluster.namespace().unwrap_or_default(), cluster.name_any());
    (key, cluster.uid().unwrap_or_default())
}

fn trouble(error: &Error) -> String {
    format!("the identity of the sidecars: {error}")
}

fn typed<K: HasStatus>(object: &DynamicObject) -> Option<K>
where
    Stored<K>: DeserializeOwned,
{
    serde_json::from_value::<Stored<K>>(json!(object)).ok()?.0.ok()
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

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
