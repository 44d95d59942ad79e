//! Labels and annotations that somebody takes off each time. Pure; a part of `plan`.

use crate::observation::Observation;
use crate::report::Report;
use crate::step::Step;
use api::conditions::Reason;
use serde_json::{Map, Value};

/// The steps without those that were tried in vain; of these the first is told.
pub fn without_vain(steps: Vec<Step>, observation: &Observation, report: &mut Report) -> Vec<Step> {
    let (vain, steps): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(|step| is_vain(step, observation));
    if let Some((subject, _, metadata)) = vain.first().and_then(patch) {
        report.trouble(Reason::ObjectRefused, text(&subject, metadata, vain.len() - 1));
    }
    steps
}

/// It was tried, and somebody undoes it each time.
fn is_vain(step: &Step, observation: &Observation) -> bool {
    patch(step).is_some_and(|(_, uid, metadata)| observation.patches_altered_on_arrival.get(uid) == Some(metadata))
}

/// What is patched, its UID and with what.
fn patch(step: &Step) -> Option<(String, &str, &Value)> {
    match step {
        Step::PatchPod { pod, uid, metadata } => Some((format!("pod {pod}"), uid, metadata)),
        Step::PatchClaim { claim, uid, metadata } => Some((format!("PersistentVolumeClaim {claim}"), uid, metadata)),
        _ => None,
    }
}

fn text(subject: &str, metadata: &Value, others: usize) -> String {
    let part = |name: &str| metadata.get(name).and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let labels = part("labels").map(|key| format!("label {key}"));
    let names: Vec<String> = labels.chain(part("annotations").map(|key| format!("annotation {key}"))).collect();
    let others = if others == 0 { String::new() } else { format!(", and the like of {others} more") };
    format!(
        "an admission webhook or policy changes {subject} at {}{others}: exempt the operator's objects from it",
        names.join(", ")
    )
}
