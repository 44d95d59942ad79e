//! Act: executes the steps of a plan and says what became of each. It chooses nothing: a step that fails
//! does not keep the others from being tried, since each stands on its own.

use super::cache::{Entry, ObjectName, Source};
use super::controller::Controller;
use super::kind::Kind;
use super::object::ObjectId;
use super::scope::Scope;
use super::{entry, resources};
use api::names::{MANAGER, annotation::NUDGED_AT};
use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::Status;
use planner::{Apply, ChildKey, Step, Why, WriteFailure, differences};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// Requests about single pods that are under way at the same time.
const AT_A_TIME: usize = 8;

/// A step that did not come through.
#[derive(Debug)]
pub struct Failure {
    pub step: String,
    pub error: Error,
}

impl Failure {
    pub fn into_fact(self) -> WriteFailure {
        WriteFailure { detail: self.error.detail(), refused: self.error.is_refusal(), step: self.step }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the API server refused it")]
    Request(#[from] kube::Error),
    #[error("the repair could not be written as a JSON patch")]
    EncodePatch(#[from] serde_json::Error),
    /// A step that only its kind knows.
    #[error("{detail}")]
    Own { detail: String, terminating: bool },
}

impl Error {
    /// The API server's own words.
    pub fn detail(&self) -> String {
        match self {
            Error::Request(error) => words(error),
            Error::EncodePatch(error) => error.to_string(),
            Error::Own { detail, .. } => detail.clone(),
        }
    }

    /// The namespace is being deleted and takes everything with it.
    pub fn is_namespace_terminating(&self) -> bool {
        match self {
            Error::Request(error) => is_namespace_terminating(error),
            Error::EncodePatch(_) => false,
            Error::Own { terminating, .. } => *terminating,
        }
    }

    /// Whether asking again without a change elsewhere is pointless: it is the request that is wrong.
    pub fn is_refusal(&self) -> bool {
        let Error::Request(kube::Error::Api(status)) = self else { return false };
        [400, 403, 422].contains(&status.code) && !is_outdated(status)
    }
}

/// The API server's own words, or what became of the request.
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

pub fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Objects in the given order, then what concerns single pods, several at a time: a large cluster has thousands of those.
pub async fn act<K: Kind>(
    steps: &[&Step],
    object: &K::Object,
    id: &ObjectId,
    controller: &Controller<K>,
) -> Vec<Failure> {
    let (each_pod, objects): (Vec<&Step>, Vec<&Step>) = steps.iter().copied().partition(|step| concerns_one_pod(step));
    let mut failures = Vec::new();
    for step in objects {
        failures.extend(attempt(step, object, id, controller).await);
    }
    let attempts: Vec<_> = each_pod.into_iter().map(|step| attempt(step, object, id, controller)).collect();
    failures.extend(stream::iter(attempts).buffered(AT_A_TIME).collect::<Vec<_>>().await.into_iter().flatten());
    failures
}

fn concerns_one_pod(step: &Step) -> bool {
    matches!(step, Step::PatchPod { .. } | Step::PatchClaim { .. } | Step::GrowClaim { .. })
}

async fn attempt<K: Kind>(
    step: &Step,
    object: &K::Object,
    id: &ObjectId,
    controller: &Controller<K>,
) -> Option<Failure> {
    match execute(step, object, id, controller).await {
        Ok(()) => {
            tracing::info!(kind = &*id.key.kind, name = id.key.name, namespace = id.key.namespace, "{step}");
            None
        }
        Err(error) => Some(Failure { step: step.to_string(), error }),
    }
}

async fn execute<K: Kind>(
    step: &Step,
    object: &K::Object,
    id: &ObjectId,
    controller: &Controller<K>,
) -> Result<(), Error> {
    match step {
        // Commands are sent before any write, by the dispatcher.
        Step::Command(_) => Ok(()),
        Step::Apply(step) => apply(step, id, controller).await,
        Step::Delete { key, uid } => delete(key, uid, PropagationPolicy::Background, id, controller).await,
        Step::Release { key, uid } => delete(key, uid, PropagationPolicy::Orphan, id, controller).await,
        Step::Nudge { key, uid, at } => nudge(key, uid, &at.to_string(), id, controller).await,
        Step::GrowClaim { claim, uid, storage } => grow(claim, uid, storage, id, controller).await,
        Step::PatchClaim { claim, uid, metadata } => patch_claim(claim, uid, metadata, id, controller).await,
        Step::PatchPod { pod, uid, metadata } => patch_pod(pod, uid, metadata, id, controller).await,
        Step::IssueCertificate { .. } | Step::WriteRoots { .. } | Step::ShowCertificate { .. } => {
            controller.kind.carry_out(step, object).await
        }
    }
}

async fn apply<K: Kind>(step: &Apply, id: &ObjectId, controller: &Controller<K>) -> Result<(), Error> {
    let (api, asked) =
        (resources::children(&controller.scope.client, step.key.kind, Some(&id.key.namespace)), Instant::now());
    if !step.evict.is_empty() {
        patch_json(&api, &step.key, &Value::Array(step.evict.clone()), &controller.scope).await?;
    }
    // An object that appears under this name only now is not ours: without force its owner's values stand.
    let force = step.why != Why::Missing;
    let parameters = PatchParams { force, ..PatchParams::apply(MANAGER) };
    controller.scope.metrics.write("apply", step.key.kind.as_str());
    let mut live = api.patch(&step.key.name, &parameters, &Patch::Apply(&bound(step))).await?;
    if let Some(patch) = disown_update(&live) {
        live = patch_json(&api, &step.key, &patch, &controller.scope).await?;
    }
    remember(step, live, asked, id, controller);
    Ok(())
}

/// The manifest for the object that was judged and for no other: the API server refuses it for one that has taken its name since.
fn bound(step: &Apply) -> Value {
    let mut manifest = step.manifest.clone();
    let metadata = manifest.get_mut("metadata").and_then(Value::as_object_mut);
    if let (Some(uid), Some(metadata)) = (&step.uid, metadata) {
        metadata.insert("uid".to_owned(), json!(uid));
    }
    manifest
}

async fn patch_json(
    api: &Api<DynamicObject>,
    key: &ChildKey,
    operations: &Value,
    scope: &Scope,
) -> Result<DynamicObject, Error> {
    let patch: json_patch::Patch = serde_json::from_value(operations.clone())?;
    scope.metrics.write("patch", key.kind.as_str());
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    Ok(api.patch(&key.name, &parameters, &Patch::Json::<()>(patch)).await?)
}

/// The object is no longer the one, or no longer as, the request was made for: the next pass makes another.
fn is_outdated(status: &Status) -> bool {
    let says = |text: &str| status.message.contains(text);
    // A UID that has changed is told like any field that must not; a test of a JSON patch that fails, without a word about it.
    status.code == 422
        && (says("metadata.uid") || says("the server rejected our request due to an error in our request"))
}

/// A JSON patch leaves its values owned by "update" beside "apply", and they could never be dropped again by applying.
fn disown_update(live: &DynamicObject) -> Option<Value> {
    let managers = live.metadata.managed_fields.as_ref()?;
    let is_ours = |operation: &str, manager: Option<&str>| manager == Some(MANAGER) && operation == "Update";
    let index = managers.iter().position(|entry| {
        entry.subresource.is_none() && is_ours(entry.operation.as_deref().unwrap_or_default(), entry.manager.as_deref())
    })?;
    let path = format!("/metadata/managedFields/{index}");
    Some(json!([
        { "op": "test", "path": format!("{path}/manager"), "value": MANAGER },
        { "op": "test", "path": format!("{path}/operation"), "value": "Update" },
        { "op": "remove", "path": path },
    ]))
}

/// The cache gets the answer ahead of the watch. What differs even now was altered by somebody on its way in.
fn remember<K: Kind>(step: &Apply, live: DynamicObject, asked: Instant, id: &ObjectId, controller: &Controller<K>) {
    let left = differences(&step.manifest, &resources::plain(step.key.kind, live.clone()));
    controller.states.change(id, |memory| memory.applied(&step.key, left));
    insert(entry::child(step.key.kind, live), asked, &controller.scope);
}

fn insert(entry: Option<Entry>, asked: Instant, scope: &Scope) {
    if let Some(entry) = entry {
        scope.cache.answered(entry, asked);
    }
}

async fn delete<K: Kind>(
    key: &ChildKey,
    uid: &str,
    propagation: PropagationPolicy,
    id: &ObjectId,
    controller: &Controller<K>,
) -> Result<(), Error> {
    let api = resources::children(&controller.scope.client, key.kind, Some(&id.key.namespace));
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let parameters = DeleteParams {
        propagation_policy: Some(propagation),
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    controller.scope.metrics.write("delete", key.kind.as_str());
    let asked = Instant::now();
    match api.delete(&key.name, &parameters).await {
        // Still there with a deletion timestamp, until its finalizers are through.
        Ok(either) => match either.left() {
            Some(object) if object.metadata.deletion_timestamp.is_some() => {
                insert(entry::child(key.kind, object), asked, &controller.scope)
            }
            _ => forget(key, uid, id, controller),
        },
        Err(kube::Error::Api(status)) if status.code == 404 => forget(key, uid, id, controller),
        // Another object by now: the watch brings it.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn forget<K: Kind>(key: &ChildKey, uid: &str, id: &ObjectId, controller: &Controller<K>) {
    let object =
        ObjectName { source: Source::Child(key.kind), namespace: id.key.namespace.clone(), name: key.name.clone() };
    controller.scope.cache.remove(&object, uid);
}

async fn nudge<K: Kind>(
    key: &ChildKey,
    uid: &str,
    at: &str,
    id: &ObjectId,
    controller: &Controller<K>,
) -> Result<(), Error> {
    let api = resources::children(&controller.scope.client, key.kind, Some(&id.key.namespace));
    let patch = json!({ "metadata": { "uid": uid, "annotations": { NUDGED_AT: at } } });
    controller.scope.metrics.write("patch", key.kind.as_str());
    let asked = Instant::now();
    let live = api.patch(&key.name, &merge(), &Patch::Merge(&patch)).await?;
    insert(entry::child(key.kind, live), asked, &controller.scope);
    Ok(())
}

async fn grow<K: Kind>(
    claim: &str,
    uid: &str,
    storage: &str,
    id: &ObjectId,
    controller: &Controller<K>,
) -> Result<(), Error> {
    let api = resources::claims(&controller.scope.client, &id.key.namespace);
    let patch = json!({ "metadata": { "uid": uid }, "spec": { "resources": { "requests": { "storage": storage } } } });
    controller.scope.metrics.write("patch", Source::Claims.as_str());
    let asked = Instant::now();
    let live = api.patch(claim, &merge(), &Patch::Merge(&patch)).await?;
    insert(entry::claim(&live), asked, &controller.scope);
    Ok(())
}

async fn patch_claim<K: Kind>(
    claim: &str,
    uid: &str,
    metadata: &Value,
    id: &ObjectId,
    controller: &Controller<K>,
) -> Result<(), Error> {
    let api = resources::claims(&controller.scope.client, &id.key.namespace);
    controller.scope.metrics.write("patch", Source::Claims.as_str());
    let asked = Instant::now();
    let live = api.patch(claim, &merge(), &Patch::Merge(&metadata_of(uid, metadata))).await?;
    controller.states.change(id, |memory| memory.patched(uid, left_out(metadata, &live.metadata)));
    insert(entry::claim(&live), asked, &controller.scope);
    Ok(())
}

/// The patch for this one object: the API server refuses it for another that has taken its name since.
fn metadata_of(uid: &str, metadata: &Value) -> Value {
    let mut wanted = metadata.clone();
    if let Some(map) = wanted.as_object_mut() {
        map.insert("uid".to_owned(), json!(uid));
    }
    json!({ "metadata": wanted })
}

async fn patch_pod<K: Kind>(
    pod: &str,
    uid: &str,
    metadata: &Value,
    id: &ObjectId,
    controller: &Controller<K>,
) -> Result<(), Error> {
    let api = resources::pods(&controller.scope.client, &id.key.namespace);
    controller.scope.metrics.write("patch", Source::Pods.as_str());
    let asked = Instant::now();
    let live = api.patch(pod, &merge(), &Patch::Merge(&metadata_of(uid, metadata))).await?;
    controller.states.change(id, |memory| memory.patched(uid, left_out(metadata, &live.metadata)));
    insert(entry::pod(&live), asked, &controller.scope);
    Ok(())
}

/// What of a patch of labels and annotations is not in the answer to it.
fn left_out(patch: &Value, live: &ObjectMeta) -> Option<Value> {
    let left = |part: &str, live: Option<&BTreeMap<String, String>>| {
        let wanted = patch.get(part).and_then(Value::as_object).into_iter().flatten();
        let is_there =
            |key: &str, value: &Value| live.and_then(|map| map.get(key)).map(String::as_str) == value.as_str();
        let left: Map<String, Value> = wanted
            .filter(|(key, value)| !is_there(key, value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        (!left.is_empty()).then(|| (part.to_owned(), Value::Object(left)))
    };
    let parts = [left("labels", live.labels.as_ref()), left("annotations", live.annotations.as_ref())];
    let parts: Map<String, Value> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then_some(Value::Object(parts))
}

fn merge() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, message: &str) -> bool {
        let status = json!({ "code": code, "message": message });
        Error::from(kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))).is_refusal()
    }

    #[test]
    fn an_object_that_changed_meanwhile_is_tried_again_and_a_wrong_request_is_told() {
        let uid = "Service \"poc\" is invalid: metadata.uid: Invalid value: \"a\": field is immutable";
        assert!(!refusal(422, uid) && !refusal(409, "uid mismatch"));
        assert!(!refusal(422, "the server rejected our request due to an error in our request"), "a test that failed");
        assert!(refusal(422, "Service \"poc\" is invalid: spec.ports: Required value") && refusal(403, "no"));
    }

    #[test]
    fn an_apply_is_bound_to_the_object_that_was_judged() {
        let step = |uid: Option<&str>| {
            let (key, manifest) =
                (ChildKey::new(planner::ChildKind::Service, "poc"), json!({ "metadata": { "name": "poc" } }));
            bound(&Apply { key, manifest, why: Why::Changed, uid: uid.map(str::to_owned), evict: Vec::new() })
        };
        assert_eq!(step(Some("u")), json!({ "metadata": { "name": "poc", "uid": "u" } }));
        assert_eq!(step(None), json!({ "metadata": { "name": "poc" } }), "there was none");
    }

    #[test]
    fn what_a_policy_took_out_of_a_patch_is_known_and_what_it_left_is_not_blamed() {
        let patch = json!({ "labels": { "team": "a", "kept": "b" }, "annotations": { "gone": null } });
        let live = |labels: Value, annotations: Value| {
            serde_json::from_value(json!({ "labels": labels, "annotations": annotations })).unwrap()
        };
        assert_eq!(left_out(&patch, &live(json!({ "team": "a", "kept": "b" }), json!({}))), None);
        let left = left_out(&patch, &live(json!({ "kept": "b" }), json!({ "gone": "still here" })));
        assert_eq!(left, Some(json!({ "labels": { "team": "a" }, "annotations": { "gone": null } })));
    }
}
