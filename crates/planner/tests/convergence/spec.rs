//! Specs to plan for.

use super::store::UID;
use api::cluster::ValkeyCluster;
use manifests::OperatorSettings;
use proptest::prelude::*;
use serde_json::{Value, json};

pub fn settings() -> OperatorSettings {
    OperatorSettings { sidecar_image: "sidecar:1".to_owned(), line: None }
}

pub fn cluster(spec: &Value) -> ValkeyCluster {
    serde_json::from_value(json!({
        "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster",
        "metadata": { "name": "poc", "namespace": "test", "uid": UID, "generation": 1 },
        "spec": spec,
    }))
    .unwrap()
}

pub fn full() -> Value {
    json!({
        "masterCount": 3, "replicasPerMaster": 1, "valkeyImage": { "tag": "9.1" }, "readService": { "enabled": true },
        "exporter": { "enabled": true, "serviceMonitor": { "enabled": true } }, "pvc": { "storageSize": "1Gi" },
        "resources": { "requests": { "cpu": "100m" }, "limits": { "memory": "1024Mi" } },
        "labels": { "team": "a" }, "annotations": { "note": "n" }, "config": { "maxmemory-policy": "allkeys-lru" },
        "tolerations": [{ "key": "a", "operator": "Exists" }],
    })
}

pub fn with_storage(size: &str) -> Value {
    json!({ "pvc": { "storageSize": size } })
}

/// Storage cannot be added, removed or shrunk: the schema refuses it.
pub fn with_storage_of(spec: &Value, other: &Value) -> Value {
    let mut spec = spec.clone();
    let map = spec.as_object_mut().unwrap();
    map.remove("pvc");
    map.extend(other.get("pvc").map(|pvc| ("pvc".to_owned(), pvc.clone())));
    spec
}

/// A spec that may come after the other: with the same storage, and no fewer pods, since nobody says what those hold.
pub fn following(spec: &Value, other: &Value) -> Value {
    let mut spec = with_storage_of(spec, other);
    for count in ["masterCount", "replicasPerMaster"] {
        spec[count] = json!(spec[count].as_u64().max(other[count].as_u64()));
    }
    spec
}

pub fn paused(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["paused"] = json!(true);
    spec["masterCount"] = json!(9);
    spec
}

/// Any part of the full spec, with some other values.
pub fn specs() -> impl Strategy<Value = Value> {
    let keys: Vec<String> = full().as_object().unwrap().keys().cloned().collect();
    let some = prop::sample::subsequence(keys.clone(), 0..=keys.len());
    (some, 3..6_u32, 0..3_u32, "[a-z]{1,5}").prop_map(|(keys, masters, replicas, word)| {
        let mut spec = full();
        spec.as_object_mut().unwrap().retain(|key, _| keys.contains(key));
        spec["masterCount"] = json!(masters);
        spec["replicasPerMaster"] = json!(replicas);
        spec["labels"] = json!({ word.clone(): "x" });
        spec["config"] = json!({ "maxmemory-policy": if word.len() > 3 { "noeviction" } else { "allkeys-lfu" } });
        spec
    })
}
