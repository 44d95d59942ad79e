//! What living pods must be told without a restart: labels and annotations of the spec, and that the settings changed. Pure.

use crate::child::{ChildKey, ChildKind};
use crate::differences::differences;
use crate::json;
use crate::manifest::{Manifests, metadata_keys};
use crate::observation::Observation;
use crate::pod_facts::PodFacts;
use crate::report::Report;
use crate::sidecar_updates::same_build;
use crate::status::whole_second;
use crate::step::Step;
use crate::vain::without_vain;
use api::names;
use api::names::annotation::{NUDGED_AT, POD_METADATA};
use jiff::{SignedDuration, Timestamp};
use manifests::{ValidatedCluster, live_pod_annotations, pod_annotations, pod_labels};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use topology::{PodName, Role};

/// Pods that are missing for longer do not come by themselves soon.
const NUDGE: SignedDuration = SignedDuration::from_secs(15);

/// As the field of the spec that would name it.
const SIDECAR_IMAGE: &str = "sidecarImage";

/// The user's keys on a pod, as the annotation lists them.
#[derive(Default, Deserialize)]
struct MetadataKeys {
    labels: Vec<String>,
    annotations: Vec<String>,
}

pub fn steps(
    cluster: &ValidatedCluster,
    manifests: &Manifests,
    observation: &Observation,
    report: &mut Report,
) -> Vec<Step> {
    let settled = settings_are_written(cluster, manifests, observation);
    let living = observation.pods.iter().filter(|pod| !pod.terminating);
    // A pod that is still starting reads the newest settings when it mounts them, or is told once it runs.
    let steps = living.filter_map(|pod| patch(pod, cluster, role(pod, report), settled && pod.running)).collect();
    without_vain(steps, observation, report)
}

/// A StatefulSet controller that could not make a pod, because of a quota or of an old pod of that name, tries again after a time
/// that doubles up to a quarter of an hour. What stood in its way is often gone long before.
pub fn nudge(observation: &Observation, missing: &[String], now: Timestamp) -> Option<Step> {
    let set = observation.stateful_set().filter(|_| !missing.is_empty() && observation.stateful_set_is_noticed())?;
    let moment = |path: &str| json::text(set, path).and_then(|text| text.parse::<Timestamp>().ok());
    let nudged = json::annotation(set, NUDGED_AT).and_then(|text| text.parse::<Timestamp>().ok());
    let last = nudged.or(moment("/metadata/creationTimestamp")).unwrap_or(now);
    let key = ChildKey::new(ChildKind::StatefulSet, &observation.cluster.name);
    let step = |uid: &str| Step::Nudge { key, uid: uid.to_owned(), at: whole_second(now) };
    json::text(set, "/metadata/uid").filter(|_| now.duration_since(last) >= NUDGE).map(step)
}

/// What the pod's node does now, if that is known. The first label comes when the node can serve: whenever a pod that is not ready
/// is changed, the kubelet probes it at once, so it becomes ready then and not at the next turn of the probe.
fn role(pod: &PodFacts, report: &Report) -> Option<&'static str> {
    let (nodes, name) = (report.nodes.as_ref()?, PodName::from(pod.name.as_str()));
    if !pod.labels.contains_key(names::label::ROLE) && !nodes.serving.contains(&name) {
        return None;
    }
    nodes.roles.get(&name).map(|role| match role {
        Role::Primary => names::ROLE_PRIMARY,
        Role::Replica => names::ROLE_REPLICA,
    })
}

/// Pods are told about new settings only when the ConfigMap has them: the kubelet looks at once, and only once.
fn settings_are_written(cluster: &ValidatedCluster, manifests: &Manifests, observation: &Observation) -> bool {
    let key = ChildKey::new(ChildKind::ConfigMap, names::config_map(&cluster.name));
    let pair = manifests.get(&key).zip(observation.object(&key));
    pair.is_some_and(|(manifest, live)| differences(manifest, live).is_empty())
}

fn patch(pod: &PodFacts, cluster: &ValidatedCluster, role: Option<&str>, tell_settings: bool) -> Option<Step> {
    let keys = pod.annotations.get(POD_METADATA).and_then(|text| serde_json::from_str(text).ok());
    let MetadataKeys { labels: old_labels, annotations: old_annotations } = keys.unwrap_or_default();
    let mut annotations = if tell_settings { live_pod_annotations(cluster) } else { pod_annotations(cluster) };
    annotations.insert(POD_METADATA.to_owned(), metadata_keys(cluster));
    let mut labels = pod_labels(cluster);
    labels.extend(role.map(|role| (names::label::ROLE.to_owned(), role.to_owned())));
    let labels = changes(&pod.labels, &labels, &old_labels);
    let annotations = changes(&pod.annotations, &annotations, &old_annotations);
    let parts = [("labels", labels), ("annotations", annotations)];
    let metadata: Map<String, Value> =
        parts.into_iter().filter(|(_, map)| !map.is_empty()).map(|(name, map)| (name.to_owned(), json!(map))).collect();
    let step = |metadata| Step::PatchPod { pod: pod.name.clone(), uid: pod.uid.clone(), metadata };
    (!metadata.is_empty()).then(|| step(Value::Object(metadata)))
}

/// A merge patch: what is missing or different, and null for what was ours and is no longer wanted.
fn changes(
    has: &BTreeMap<String, String>,
    wants: &BTreeMap<String, String>,
    was_ours: &[String],
) -> BTreeMap<String, Value> {
    let set = wants.iter().filter(|(key, value)| has.get(*key) != Some(*value));
    let drop = was_ours.iter().filter(|key| has.contains_key(*key) && !wants.contains_key(*key));
    set.map(|(key, value)| (key.clone(), json!(value))).chain(drop.map(|key| (key.clone(), Value::Null))).collect()
}

/// Whether any pod waits for a restart, and for which fields; `template` is the pod template as it should be.
pub fn restart_needs(manifests: &Manifests, observation: &Observation) -> BTreeMap<String, usize> {
    let key = ChildKey::new(ChildKind::StatefulSet, &observation.cluster.name);
    let template = manifests.get(&key).and_then(|manifest| manifest.pointer("/spec/template/metadata/annotations"));
    let template: BTreeMap<String, String> =
        template.and_then(|annotations| serde_json::from_value(annotations.clone()).ok()).unwrap_or_default();
    let sidecar = sidecar_image(manifests.get(&key));
    let mut needs = BTreeMap::new();
    for pod in observation.pods.iter().filter(|pod| !pod.terminating) {
        let mut fields = manifests::restart::pending(&pod.annotations, &template).unwrap_or_default();
        // The operator's own image is no field of the spec, and a pod gets another only by being replaced.
        let other = pod.sidecar_image.as_deref().zip(sidecar).is_some_and(|(has, wants)| !same_build(has, wants));
        fields.extend(other.then(|| SIDECAR_IMAGE.to_owned()));
        fields.into_iter().for_each(|field| *needs.entry(field).or_default() += 1);
    }
    needs
}

/// What pods that are made get.
pub fn sidecar_image(stateful_set: Option<&Value>) -> Option<&str> {
    let containers = json::items(stateful_set?, "/spec/template/spec/initContainers").iter();
    let mut sidecars = containers.filter(|it| json::text(it, "/name") == Some(names::container::SIDECAR));
    json::text(sidecars.next()?, "/image")
}

/// Ready pods among the ordinals the spec asks for.
pub fn ready(observation: &Observation, count: u32) -> u32 {
    let unready = u32::try_from(unready(observation, count).len()).unwrap_or(count);
    count.saturating_sub(unready)
}

/// Pods that the spec asks for and that are not ready, whether they exist or not.
pub fn unready(observation: &Observation, count: u32) -> Vec<String> {
    let is_ready =
        |name: &String| observation.pods.iter().any(|pod| pod.name == *name && pod.ready && !pod.terminating);
    let names = (0..count).map(|ordinal| names::pod(&observation.cluster.name, ordinal));
    names.filter(|name| !is_ready(name)).collect()
}

/// Ordinals the spec asks for that have no pod.
pub fn missing(observation: &Observation, count: u32) -> Vec<String> {
    let exists = |name: &String| observation.pods.iter().any(|pod| pod.name == *name);
    let names = (0..count).map(|ordinal| names::pod(&observation.cluster.name, ordinal));
    names.filter(|name| !exists(name)).collect()
}

/// The pods a StatefulSet asks for, as far as it is seen.
pub fn asked_for(stateful_set: &Value) -> u32 {
    json::integer(stateful_set, "/spec/replicas").and_then(|count| u32::try_from(count).ok()).unwrap_or_default()
}
