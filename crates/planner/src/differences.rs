//! Where a live object is not what we applied. Pure; the planner asks it for each child before planning a write.
//!
//! The API server adds defaults and other people add labels, so live may hold more than desired. But lists we fill,
//! selectors and data maps are ours alone: something extra in them is drift, which server-side apply would not remove.

use crate::json::escaped;
use api::quantity::Quantity;
use serde_json::{Map, Value};

/// One place that differs, as a JSON pointer into the live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub path: String,
    pub kind: DifferenceKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Another value than ours, or none.
    Changed,
    /// A key in a map that is ours alone.
    ExcessKey,
    /// A list with elements that are not ours; the list as we want it.
    ExcessItems(Value),
}

/// Maps that are ours as a whole, whatever object they are in. A stray key in them changes what is selected or served.
const OWN_MAPS: [&str; 8] =
    ["data", "labelSelector", "limits", "matchLabels", "namespaceSelector", "nodeSelector", "podSelector", "selector"];
/// Kinds whose whole spec is ours: an extra field in one of them opens or closes something.
const OWN_SPECS: [&str; 2] = ["NetworkPolicy", "PodDisruptionBudget"];
/// Filled in by the API server inside such a spec.
const DEFAULTED: [&str; 1] = ["protocol"];
/// Fields that hold a quantity, which the API server rewrites (1024Mi becomes 1Gi).
const QUANTITIES: [&str; 2] = ["divisor", "sizeLimit"];
/// Maps that the API server does not store when they are empty. Of others, as `podSelector`, an empty one says something.
const DROPPED_MAPS: [&str; 3] = ["limits", "matchLabels", "requests"];
/// Maps of quantities.
const QUANTITY_MAPS: [&str; 2] = ["limits", "requests"];

/// What must change in `live` to make it agree with `desired`. Empty: nothing to write.
pub fn differences(desired: &Value, live: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    let kind = desired.get("kind").and_then(Value::as_str).unwrap_or_default();
    let own_spec = OWN_SPECS.contains(&kind);
    let scope = Scope { path: String::new(), field: "", own: false, own_spec, quantity: false };
    compare(desired, live, &scope, &mut found);
    found
}

/// Where the comparison is.
struct Scope<'a> {
    path: String,
    field: &'a str,
    /// Live must not hold more keys than desired from here on.
    own: bool,
    /// `spec` begins such a part.
    own_spec: bool,
    /// The value here is a quantity.
    quantity: bool,
}

impl<'a> Scope<'a> {
    fn key(&self, field: &'a str) -> Scope<'a> {
        let begins = OWN_MAPS.contains(&field) || (field == "spec" && self.own_spec);
        let path = format!("{}/{}", self.path, escaped(field));
        let quantity = QUANTITIES.contains(&field) || QUANTITY_MAPS.contains(&self.field);
        Scope { path, field, own: self.own || begins, own_spec: false, quantity }
    }

    fn index(&self, index: usize) -> Scope<'a> {
        let path = format!("{}/{index}", self.path);
        Scope { path, field: self.field, own: self.own, own_spec: false, quantity: false }
    }

    fn found(&self, kind: DifferenceKind) -> Difference {
        Difference { path: self.path.clone(), kind }
    }
}

fn compare(desired: &Value, live: &Value, scope: &Scope<'_>, found: &mut Vec<Difference>) {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => compare_maps(desired, live, scope, found),
        (Value::Array(desired), Value::Array(live)) if scope.path == "/metadata/ownerReferences" => {
            compare_owners(desired, live, scope, found);
        }
        (Value::Array(desired), Value::Array(live)) => compare_lists(desired, live, scope, found),
        _ if desired == live || (scope.quantity && same_quantity(desired, live)) => {}
        _ => found.push(scope.found(DifferenceKind::Changed)),
    }
}

fn compare_maps(
    desired: &Map<String, Value>,
    live: &Map<String, Value>,
    scope: &Scope<'_>,
    found: &mut Vec<Difference>,
) {
    for (key, value) in desired {
        match live.get(key) {
            Some(live) => compare(value, live, &scope.key(key), found),
            None if is_dropped_when_empty(key, value) => {}
            None => found.push(scope.key(key).found(DifferenceKind::Changed)),
        }
    }
    let excess =
        live.keys().filter(|key| scope.own && !desired.contains_key(*key) && !DEFAULTED.contains(&key.as_str()));
    found.extend(
        excess.map(|key| Difference {
            path: format!("{}/{}", scope.path, escaped(key)),
            kind: DifferenceKind::ExcessKey,
        }),
    );
}

/// The API server does not store these.
fn is_dropped_when_empty(field: &str, value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty() && DROPPED_MAPS.contains(&field),
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn compare_lists(desired: &[Value], live: &[Value], scope: &Scope<'_>, found: &mut Vec<Difference>) {
    match merge_keys(scope.field, desired) {
        Some(keys) => compare_keyed(desired, live, keys, scope, found),
        None if desired.len() == live.len() => {
            for (index, (desired, live)) in desired.iter().zip(live).enumerate() {
                compare(desired, live, &scope.index(index), found);
            }
        }
        None => found.push(scope.found(DifferenceKind::Changed)),
    }
}

/// By which fields the API server tells the elements of a list apart; None: the list is one value.
fn merge_keys(field: &str, desired: &[Value]) -> Option<&'static [&'static str]> {
    let keys: &[&str] = match field {
        "containers" | "initContainers" | "env" | "volumes" | "imagePullSecrets" => &["name"],
        "volumeMounts" => &["mountPath"],
        "topologySpreadConstraints" => &["topologyKey", "whenUnsatisfiable"],
        "ports" if desired.iter().all(|port| port.get("containerPort").is_some()) => &["containerPort", "protocol"],
        "ports" if desired.iter().all(|port| port.get("name").is_some()) => &["port", "protocol"],
        _ => return None,
    };
    Some(keys)
}

fn compare_keyed(desired: &[Value], live: &[Value], keys: &[&str], scope: &Scope<'_>, found: &mut Vec<Difference>) {
    let known = |item: &Value| desired.iter().any(|other| same_item(item, other, keys));
    if !live.iter().all(known) {
        found.push(scope.found(DifferenceKind::ExcessItems(Value::Array(desired.to_vec()))));
        return;
    }
    for item in desired {
        match live.iter().enumerate().find(|(_, other)| same_item(item, other, keys)) {
            Some((index, other)) => compare(item, other, &scope.index(index), found),
            None => found.push(scope.found(DifferenceKind::Changed)),
        }
    }
}

fn same_item(one: &Value, other: &Value, keys: &[&str]) -> bool {
    let value = |item: &Value, key: &str| match item.get(key) {
        None if key == "protocol" => Value::String("TCP".to_owned()),
        found => found.cloned().unwrap_or_default(),
    };
    keys.iter().all(|key| value(one, key) == value(other, key))
}

/// Others may own an object beside us; our own reference must be there as we wrote it.
fn compare_owners(desired: &[Value], live: &[Value], scope: &Scope<'_>, found: &mut Vec<Difference>) {
    if !desired.iter().all(|owner| live.contains(owner)) {
        found.push(scope.found(DifferenceKind::Changed));
    }
}

fn same_quantity(desired: &Value, live: &Value) -> bool {
    let read = |value: &Value| match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    };
    read(desired).is_some() && read(desired) == read(live)
}
