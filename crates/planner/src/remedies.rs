//! What helps a pod in trouble when the pod itself has to be another one. Pure; a part of `troubles`.

use crate::observation::Observation;
use crate::pod_facts::PodFacts;
use api::conditions::Reason;
use api::names::label;
use manifests::restart;
use std::collections::BTreeMap;

/// Fields that a message names.
const NAMED: usize = 5;
/// What may come of pods without ids.
const OF_IDS: [Reason; 3] = [Reason::ValkeyCrashLooping, Reason::SidecarCrashLooping, Reason::PodFailing];

/// What stands behind the trouble in a message; empty when nothing does.
pub fn of(pod: &PodFacts, reason: Reason, observation: &Observation) -> String {
    let ids = OF_IDS.contains(&reason).then(|| without_ids(pod)).flatten();
    [ids, outdated(pod, observation)].into_iter().flatten().map(|text| format!("; {text}")).collect()
}

/// Where the platform gives no ids, Valkey may be neither started nor allowed to write to its volume.
fn without_ids(pod: &PodFacts) -> Option<String> {
    let text = "spec.securityContext is empty, and the platform gave the pod no fsGroup: if that is the cause, take spec.securityContext out \
                or write ids into it, which is possible until the cluster is formed";
    pod.without_group.then(|| text.to_owned())
}

/// A corrected spec helps only a pod that is made after it, and nobody but a person ends the one of before.
fn outdated(pod: &PodFacts, observation: &Observation) -> Option<String> {
    let fields: Vec<String> = pending(pod, observation)?;
    let made = format!("the pod was made before a change of {}", api::text::listed(&fields, NAMED));
    Some(if loses_data(pod, observation) {
        format!("{made}, which only a new pod has; its data is on no volume and ends with it")
    } else {
        format!("{made}: kubectl delete pod {} makes it anew", pod.name)
    })
}

fn pending(pod: &PodFacts, observation: &Observation) -> Option<Vec<String>> {
    let template = observation.stateful_set()?.pointer("/spec/template/metadata/annotations")?;
    let template: BTreeMap<String, String> = serde_json::from_value(template.clone()).ok()?;
    let fields = restart::pending(&pod.annotations, &template)?;
    (!fields.is_empty()).then(|| fields.into_iter().collect())
}

/// Whether its Valkey may have served with nothing but the pod to keep what it has.
fn loses_data(pod: &PodFacts, observation: &Observation) -> bool {
    let has_volume = observation.claims.iter().any(|claim| claim.belongs_to(&pod.name));
    let mut recorded = observation.nodes.iter().flat_map(|nodes| &nodes.recorded).flat_map(|shard| &shard.nodes);
    let on_record = recorded.any(|node| node.pod_uid.as_ref().is_some_and(|uid| uid.as_str() == pod.uid));
    !has_volume && (on_record || pod.labels.contains_key(label::ROLE))
}
