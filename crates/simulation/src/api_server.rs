//! A small API server: objects with versions and generations, conflicts, and answers that get lost. In memory.
//! Nobody but the operator owns fields of the objects, so an apply replaces all of them.

use planner::{Apply, ChildKey, ChildKind, Observed, Step, WriteFailure};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What goes wrong with writes, each as a chance of one in so many; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteFaults {
    /// It was written, and the answer did not arrive.
    pub lost_answer: u32,
    /// Somebody wrote the object at the same moment: nothing was written.
    pub conflict: u32,
}

#[derive(Default)]
pub struct ApiServer {
    pub faults: WriteFaults,
    objects: BTreeMap<ChildKey, Value>,
    version: u64,
}

impl ApiServer {
    /// The newest version of any object: changes whenever something was written.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn observed(&self) -> BTreeMap<ChildKey, Observed> {
        self.objects.iter().map(|(key, object)| (key.clone(), Observed::Object(object.clone()))).collect()
    }

    pub fn stateful_set(&self) -> Option<&Value> {
        self.objects.iter().find(|(key, _)| key.kind == ChildKind::StatefulSet).map(|(_, object)| object)
    }

    /// Carries out a write and says what the operator hears of it.
    pub fn write(&mut self, step: &Step, chance: &mut fastrand::Rng) -> Result<(), WriteFailure> {
        let mut unlucky = |one_in: u32| one_in > 0 && chance.u32(..one_in) == 0;
        if unlucky(self.faults.conflict) {
            return Err(failed(step, "the object has been modified", false));
        }
        match step {
            Step::Apply(apply) => self.apply(apply),
            Step::Delete { key, uid } | Step::Release { key, uid } => {
                self.delete(key, uid).map_err(|why| failed(step, why, false))?;
            }
            Step::IssueCertificate { .. } | Step::ShowCertificate { .. } => self.version += 1,
            // What these change is kept elsewhere, or not at all.
            Step::Command(_)
            | Step::GrowClaim { .. }
            | Step::PatchClaim { .. }
            | Step::PatchPod { .. }
            | Step::WriteRoots { .. }
            | Step::Nudge { .. } => {}
        }
        if unlucky(self.faults.lost_answer) { Err(failed(step, "no answer", false)) } else { Ok(()) }
    }

    fn apply(&mut self, apply: &Apply) {
        self.version += 1;
        let before = self.objects.get(&apply.key);
        let mut object = apply.manifest.clone();
        let kept = |pointer: &str| before.and_then(|before| before.pointer(pointer)).cloned();
        let uid = kept("/metadata/uid").unwrap_or_else(|| json!(format!("uid-{}", self.version)));
        let generation = kept("/metadata/generation").and_then(|number| number.as_u64()).unwrap_or_default();
        let changed = before.is_none_or(|before| before.get("spec") != object.get("spec"));
        let marks = json!({
            "uid": uid, "generation": generation + u64::from(changed), "resourceVersion": self.version.to_string(),
        });
        if let (Some(metadata), Value::Object(marks)) =
            (object.get_mut("metadata").and_then(Value::as_object_mut), marks)
        {
            metadata.extend(marks);
        }
        if let (Some(status), Some(object)) = (kept("/status"), object.as_object_mut()) {
            object.insert("status".to_owned(), status);
        }
        self.objects.insert(apply.key.clone(), object);
    }

    fn delete(&mut self, key: &ChildKey, uid: &str) -> Result<(), &'static str> {
        let there = self.objects.get(key).and_then(|object| object.pointer("/metadata/uid")?.as_str());
        if there.is_some_and(|there| there != uid) {
            return Err("the UID in the precondition does not match");
        }
        self.version += u64::from(self.objects.remove(key).is_some());
        Ok(())
    }

    /// Somebody else than the operator changes the StatefulSet.
    pub fn edit_stateful_set(&mut self, edit: impl FnOnce(&mut Value)) {
        let set = self.objects.iter_mut().find(|(key, _)| key.kind == ChildKind::StatefulSet);
        let Some((_, object)) = set else { return };
        let before = object.clone();
        edit(object);
        if *object == before {
            return;
        }
        self.version += 1;
        let generation = before.pointer("/metadata/generation").and_then(Value::as_u64).unwrap_or_default();
        let changed = before.get("spec") != object.get("spec");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("generation".to_owned(), json!(generation + u64::from(changed)));
            metadata.insert("resourceVersion".to_owned(), json!(self.version.to_string()));
        }
    }

    pub fn delete_stateful_set(&mut self) {
        let before = self.objects.len();
        self.objects.retain(|key, _| key.kind != ChildKind::StatefulSet);
        self.version += u64::from(self.objects.len() < before);
    }
}

fn failed(step: &Step, detail: &str, refused: bool) -> WriteFailure {
    WriteFailure { step: step.to_string(), detail: detail.to_owned(), refused }
}
