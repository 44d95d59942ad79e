//! An API server of a few lines: server-side apply with ownership, defaults, JSON patches, a StatefulSet controller.
//! Runs the planner's steps so that tests see where they lead.

use api::names::annotation::CR;
use k8s_openapi::jiff::Timestamp;
use planner::{Apply, ChildKey, ChildKind, ClaimFacts, Identity, Observation, Observed, PodFacts, Step};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub const UID: &str = "cluster-uid";

#[derive(Clone, Default)]
pub struct Store {
    pub live: BTreeMap<ChildKey, Value>,
    /// What was applied last: fields of it that are no longer applied go.
    applied: BTreeMap<ChildKey, Value>,
    pub pods: Vec<PodFacts>,
    pub claims: Vec<ClaimFacts>,
    counter: u64,
    pub writes: u64,
}

impl Store {
    pub fn observe(&self) -> Observation {
        Observation {
            cluster: Identity {
                name: "poc".into(),
                namespace: "test".into(),
                uid: UID.into(),
                generation: Some(1),
                deleting: false,
            },
            children: self.live.iter().map(|(key, value)| (key.clone(), Observed::Object(value.clone()))).collect(),
            pods: self.pods.clone(),
            claims: self.claims.clone(),
            ..Observation::default()
        }
    }

    pub fn execute(&mut self, step: &Step) {
        self.writes += 1;
        match step {
            Step::Command(_) => {}
            Step::Apply(apply) => self.apply(apply),
            Step::Delete { key, uid } => self.delete(key, uid),
            Step::Release { key, uid } => self.delete(key, uid),
            Step::GrowClaim { claim, storage, .. } => self.grow(claim, storage),
            Step::PatchClaim { claim, metadata, .. } => self.mark(claim, metadata),
            Step::PatchPod { pod, metadata, .. } => self.patch_pod(pod, metadata),
            // Certificates come from elsewhere here.
            Step::Nudge { .. } => {}
            Step::IssueCertificate { .. } | Step::WriteRoots { .. } | Step::ShowCertificate { .. } => {}
        }
    }

    fn apply(&mut self, step: &Apply) {
        let key = &step.key;
        self.counter += 1;
        let fresh = json!({ "metadata": { "uid": format!("uid-{}", self.counter), "generation": 0 } });
        let seen = self.live.get(key).and_then(|live| live.pointer("/metadata/uid")).and_then(Value::as_str);
        assert_eq!(seen, step.uid.as_deref(), "{key} was to be written over as another object");
        let live = self.live.entry(key.clone()).or_insert(fresh);
        step.evict.iter().for_each(|operation| patch(live, operation));
        if let Some(before) = self.applied.get(key) {
            disown(live, before, &step.manifest);
        }
        merge(live, &step.manifest, "");
        add_defaults(live);
        self.applied.insert(key.clone(), step.manifest.clone());
    }

    fn delete(&mut self, key: &ChildKey, uid: &str) {
        let is_meant = self.live.get(key).and_then(|live| live.pointer("/metadata/uid")) == Some(&json!(uid));
        assert!(is_meant, "{key} was to be deleted as {uid}");
        self.live.remove(key);
        self.applied.remove(key);
    }

    fn grow(&mut self, name: &str, storage: &str) {
        let claim = self.claims.iter_mut().find(|claim| claim.name == name && claim.bound).unwrap();
        claim.requested = storage.to_owned();
    }

    fn mark(&mut self, name: &str, metadata: &Value) {
        let claim = self.claims.iter_mut().find(|claim| claim.name == name).unwrap();
        claim.cluster = metadata["annotations"][CR].as_str().map(str::to_owned);
    }

    fn patch_pod(&mut self, name: &str, metadata: &Value) {
        let pod = self.pods.iter_mut().find(|pod| pod.name == name).unwrap();
        for (part, map) in [("labels", &mut pod.labels), ("annotations", &mut pod.annotations)] {
            for (key, value) in metadata.get(part).and_then(Value::as_object).into_iter().flatten() {
                match value.as_str() {
                    Some(text) => drop(map.insert(key.clone(), text.to_owned())),
                    None => drop(map.remove(key)),
                }
            }
        }
    }

    /// What the StatefulSet controller and the kubelets would do.
    pub fn run_pods(&mut self) {
        let key = ChildKey::new(ChildKind::StatefulSet, "poc");
        let Some(set) = self.live.get_mut(&key) else { return };
        let generation = set["metadata"]["generation"].clone();
        set["status"] = json!({ "observedGeneration": generation, "replicas": set["spec"]["replicas"] });
        let set = set.clone();
        // An edit may have left anything there; a real API server would have refused it.
        let Some(count) = set["spec"]["replicas"].as_u64() else { return };
        self.pods.retain(|pod| ordinal(&pod.name) < count);
        for ordinal in 0..count {
            self.run_pod(ordinal, &set);
        }
    }

    fn run_pod(&mut self, ordinal: u64, set: &Value) {
        let name = format!("poc-{ordinal}");
        if self.pods.iter().any(|pod| pod.name == name) {
            return;
        }
        let texts = |part: &str| -> BTreeMap<String, String> {
            serde_json::from_value(set["spec"]["template"]["metadata"][part].clone()).unwrap_or_default()
        };
        self.pods.push(PodFacts {
            uid: format!("uid-of-{name}"),
            labels: texts("labels"),
            annotations: texts("annotations"),
            running: true,
            ready: true,
            name: name.clone(),
            ..PodFacts::default()
        });
        let size = set.pointer("/spec/volumeClaimTemplates/0/spec/resources/requests/storage").and_then(Value::as_str);
        let missing = !self.claims.iter().any(|claim| claim.belongs_to(&name));
        self.claims.extend(size.filter(|_| missing).map(|size| ClaimFacts {
            name: format!("data-{name}"),
            bound: true,
            requested: size.to_owned(),
            ..ClaimFacts::default()
        }));
    }
}

pub fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn ordinal(pod: &str) -> u64 {
    pod.rsplit('-').next().unwrap().parse().unwrap()
}

/// Takes fields away that were applied before and are no longer.
fn disown(live: &mut Value, before: &Value, after: &Value) {
    match (live, before) {
        (Value::Object(live), Value::Object(before)) => {
            live.retain(|key, _| !before.contains_key(key) || after.get(key).is_some());
            for (key, value) in live {
                disown(value, before.get(key).unwrap_or(&Value::Null), after.get(key).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(live), Value::Array(before)) => {
            let named = |list: &[Value], item: &Value| list.iter().find(|other| other["name"] == item["name"]).cloned();
            let after = after.as_array().cloned().unwrap_or_default();
            live.retain(|item| named(before, item).is_none() || named(&after, item).is_some());
            for item in live {
                let (before, after) =
                    (named(before, item).unwrap_or_default(), named(&after, item).unwrap_or_default());
                disown(item, &before, &after);
            }
        }
        _ => {}
    }
}

/// Maps merge; keyed lists merge by name, others are replaced.
fn merge(live: &mut Value, applied: &Value, field: &str) {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if field != "selector" => {
            for (key, value) in applied {
                merge(live.entry(key.clone()).or_insert(Value::Null), value, key);
            }
        }
        (Value::Array(live), Value::Array(applied)) if is_keyed(field) => merge_items(live, applied),
        (live, applied) => *live = applied.clone(),
    }
}

fn is_keyed(field: &str) -> bool {
    ["containers", "initContainers", "env", "volumes"].contains(&field)
}

fn merge_items(live: &mut Vec<Value>, applied: &[Value]) {
    for item in applied {
        match live.iter_mut().find(|other| other["name"] == item["name"]) {
            Some(other) => merge(other, item, ""),
            None => live.push(item.clone()),
        }
    }
}

/// Some of what a real API server fills in, and what it leaves out.
fn add_defaults(object: &mut Value) {
    walk(object, &mut |field, map| {
        map.retain(|_, value| !(value.is_null() || *value == json!("") || *value == json!([])));
        if field == "containers" || field == "initContainers" {
            map.entry("terminationMessagePath").or_insert(json!("/dev/termination-log"));
            map.entry("imagePullPolicy").or_insert(json!("IfNotPresent"));
        }
        if field == "ports" {
            map.entry("protocol").or_insert(json!("TCP"));
        }
    });
    let generation = object["metadata"]["generation"].as_u64().unwrap_or_default();
    object["metadata"]["generation"] = json!(generation + 1);
}

fn walk(value: &mut Value, change: &mut impl FnMut(&str, &mut Map<String, Value>)) {
    fn inner(value: &mut Value, field: &str, change: &mut dyn FnMut(&str, &mut Map<String, Value>)) {
        match value {
            Value::Object(map) => {
                change(field, map);
                map.iter_mut().for_each(|(key, value)| inner(value, &key.clone(), change));
            }
            Value::Array(list) => list.iter_mut().for_each(|item| inner(item, field, change)),
            _ => {}
        }
    }
    inner(value, "", change);
}

/// The two JSON Patch operations the planner uses.
pub fn patch(object: &mut Value, operation: &Value) {
    let path = operation["path"].as_str().unwrap();
    match operation["op"].as_str().unwrap() {
        "test" => assert_eq!(object.pointer(path), operation.get("value"), "{path}"),
        "replace" => *object.pointer_mut(path).unwrap() = operation["value"].clone(),
        "remove" => {
            let (parent, key) = path.rsplit_once('/').unwrap();
            let key = key.replace("~1", "/").replace("~0", "~");
            object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(&key).unwrap();
        }
        other => panic!("unknown operation {other}"),
    }
}
