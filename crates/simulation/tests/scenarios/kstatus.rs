//! What kstatus makes of an object of a kind that it does not know: the rules of `Compute` in
//! sigs.k8s.io/cli-utils/pkg/kstatus/status, which Flux and others go by.

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kstatus {
    InProgress,
    Failed,
    Current,
    Terminating,
}

pub fn compute(object: &Value) -> Kstatus {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    if !text("/metadata/deletionTimestamp").is_empty() {
        return Kstatus::Terminating;
    }
    let (generation, observed) = (number("/metadata/generation"), number("/status/observedGeneration"));
    if generation.zip(observed).is_some_and(|(generation, observed)| generation != observed) {
        return Kstatus::InProgress;
    }
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let pairs: Vec<(&str, &str)> =
        conditions.filter_map(|it| Some((it.get("type")?.as_str()?, it.get("status")?.as_str()?))).collect();
    // The first of the two that is True decides.
    let abnormal = pairs.iter().find_map(|pair| match pair {
        ("Reconciling", "True") => Some(Kstatus::InProgress),
        ("Stalled", "True") => Some(Kstatus::Failed),
        _ => None,
    });
    // Ready counts last, and without it an object is current.
    let ready = || pairs.iter().find(|(condition, _)| *condition == "Ready");
    abnormal.unwrap_or_else(|| match ready() {
        Some((_, "True")) | None => Kstatus::Current,
        Some(_) => Kstatus::InProgress,
    })
}
