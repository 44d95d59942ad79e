//! Things people do to objects that are not theirs.

use planner::ChildKey;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is done to one of the objects; numbers pick the object and the place, modulo what there is.
#[derive(Clone, Debug)]
pub enum Drift {
    Delete(usize),
    /// Another value for a field we set.
    Change(usize, usize),
    /// A field we set, removed.
    Remove(usize, usize),
    /// Another element in a list.
    Append(usize, usize),
    /// A label of their own.
    Label(usize),
}

pub fn drifts() -> impl Strategy<Value = Vec<Drift>> {
    let (object, place) = (0..64_usize, 0..512_usize);
    let drift = prop_oneof![
        object.clone().prop_map(Drift::Delete),
        (object.clone(), place.clone()).prop_map(|(object, place)| Drift::Change(object, place)),
        (object.clone(), place.clone()).prop_map(|(object, place)| Drift::Remove(object, place)),
        (object.clone(), place).prop_map(|(object, place)| Drift::Append(object, place)),
        object.prop_map(Drift::Label),
    ];
    prop::collection::vec(drift, 0..6)
}

/// Places nobody can edit, or which say whose the object is.
fn is_editable(path: &str) -> bool {
    let fixed =
        ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid", "/metadata/generation"];
    let identity = [
        "/metadata/ownerReferences",
        "/spec/selector",
        "/spec/volumeClaimTemplates",
        "/spec/serviceName",
        "/spec/podManagementPolicy",
        "/status",
    ];
    !fixed.contains(&path) && !identity.iter().any(|start| path.starts_with(start))
}

pub fn drift(live: &mut BTreeMap<ChildKey, Value>, drift: &Drift) {
    let pick = |live: &BTreeMap<ChildKey, Value>, index: usize| live.keys().nth(index % live.len().max(1)).cloned();
    let (Drift::Delete(index)
    | Drift::Change(index, _)
    | Drift::Remove(index, _)
    | Drift::Append(index, _)
    | Drift::Label(index)) = drift;
    let Some(key) = pick(live, *index) else { return };
    if let Drift::Delete(_) = drift {
        live.remove(&key);
        return;
    }
    edit(live.get_mut(&key).unwrap(), drift);
}

fn edit(object: &mut Value, drift: &Drift) {
    match drift {
        Drift::Change(_, place) => at(
            object,
            *place,
            |value| !value.is_object() && !value.is_array(),
            |value| {
                *value = json!("drifted");
            },
        ),
        Drift::Remove(_, place) => {
            let paths = paths(object, &|value: &Value| !value.is_object() && !value.is_array());
            let named: Vec<_> = paths.iter().filter(|path| !path.ends_with(|c: char| c.is_ascii_digit())).collect();
            if let Some(path) = named.get(place % named.len().max(1)) {
                super::store::patch(object, &json!({ "op": "remove", "path": path }));
            }
        }
        Drift::Append(_, place) => at(object, *place, Value::is_array, |value| {
            value
                .as_array_mut()
                .unwrap()
                .push(json!({ "name": "theirs", "containerPort": 1, "port": 1, "mountPath": "/theirs" }));
        }),
        Drift::Label(_) => object["metadata"]["labels"]["theirs"] = json!("yes"),
        Drift::Delete(_) => {}
    }
}

fn at(object: &mut Value, place: usize, fits: impl Fn(&Value) -> bool, change: impl FnOnce(&mut Value)) {
    let paths = paths(object, &fits);
    if let Some(path) = paths.get(place % paths.len().max(1)) {
        change(object.pointer_mut(path).unwrap());
    }
}

fn paths(object: &Value, fits: &impl Fn(&Value) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    collect(object, String::new(), fits, &mut found);
    found.retain(|path| is_editable(path));
    found
}

fn collect(value: &Value, path: String, fits: &impl Fn(&Value) -> bool, found: &mut Vec<String>) {
    if fits(value) {
        found.push(path.clone());
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                collect(value, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), fits, found);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, format!("{path}/{index}"), fits, found);
            }
        }
        _ => {}
    }
}
