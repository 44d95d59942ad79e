//! What counts as drift, place by place, against objects as an API server shows them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

use planner::{DifferenceKind, differences};
use serde_json::{Value, json};

fn service() -> (Value, Value) {
    let desired = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "poc", "labels": { "app": "valkey" }, "ownerReferences": [{ "kind": "ValkeyCluster", "name": "poc", "uid": "u", "controller": true }] },
        "spec": { "selector": { "app": "valkey" }, "ports": [{ "name": "valkey", "port": 6379, "targetPort": 6379 }] },
    });
    let live = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "poc", "uid": "1", "resourceVersion": "7", "labels": { "app": "valkey", "theirs": "yes" },
            "ownerReferences": [{ "kind": "ValkeyCluster", "name": "poc", "uid": "u", "controller": true }] },
        "spec": { "selector": { "app": "valkey" }, "type": "ClusterIP", "clusterIP": "10.0.0.1", "sessionAffinity": "None",
            "ports": [{ "name": "valkey", "port": 6379, "targetPort": 6379, "protocol": "TCP" }] },
        "status": { "loadBalancer": {} },
    });
    (desired, live)
}

fn stateful_set() -> (Value, Value) {
    let desired = json!({
        "kind": "StatefulSet",
        "spec": { "replicas": 6, "template": { "spec": {
            "automountServiceAccountToken": false,
            "containers": [{ "name": "valkey", "image": "valkey:9.1", "command": ["valkey-server"],
                "ports": [{ "name": "valkey", "containerPort": 6379 }], "env": [{ "name": "A", "value": "" }],
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                "resources": { "limits": { "memory": "1024Mi" } } }],
            "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "run", "emptyDir": { "sizeLimit": "4096Ki" } }] } } },
    });
    let live = json!({
        "kind": "StatefulSet",
        "spec": { "replicas": 6, "revisionHistoryLimit": 10, "template": { "spec": {
            "automountServiceAccountToken": false, "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "containers": [{ "name": "valkey", "image": "valkey:9.1", "command": ["valkey-server"], "imagePullPolicy": "IfNotPresent",
                "ports": [{ "name": "valkey", "containerPort": 6379, "protocol": "TCP" }], "env": [{ "name": "A" }],
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                "resources": { "limits": { "memory": "1Gi" }, "requests": { "memory": "1Gi" } } }],
            "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "run", "emptyDir": { "sizeLimit": "4Mi" } }] } } },
    });
    (desired, live)
}

const CONTAINER: &str = "/spec/template/spec/containers/0";

/// Changes the live object at a pointer and says where that is noticed.
fn noticed((desired, mut live): (Value, Value), pointer: &str, change: impl FnOnce(&mut Value)) -> Vec<String> {
    change(live.pointer_mut(pointer).unwrap());
    differences(&desired, &live).into_iter().map(|difference| difference.path).collect()
}

fn push(item: Value) -> impl FnOnce(&mut Value) {
    move |list| list.as_array_mut().unwrap().push(item)
}

fn insert(key: &str, value: Value) -> impl FnOnce(&mut Value) + use<> {
    let key = key.to_owned();
    move |map| drop(map.as_object_mut().unwrap().insert(key, value))
}

fn remove(key: &str) -> impl FnOnce(&mut Value) + use<> {
    let key = key.to_owned();
    move |map| drop(map.as_object_mut().unwrap().remove(&key))
}

#[test]
fn defaults_rewritten_quantities_and_labels_of_others_are_no_drift() {
    for (desired, live) in [service(), stateful_set()] {
        assert_eq!(differences(&desired, &live), []);
    }
}

/// The API server stores no empty map where one says nothing.
#[test]
fn an_empty_map_that_is_not_stored_is_no_drift() {
    let policy = |pods: Value, kept: Value| {
        let of = |selector: Value| json!({ "kind": "NetworkPolicy", "spec": { "ingress": [{ "from": [selector] }] } });
        differences(&of(pods), &of(kept))
    };
    assert_eq!(policy(json!({ "podSelector": { "matchLabels": {} } }), json!({ "podSelector": {} })), []);
    assert!(!policy(json!({ "podSelector": {} }), json!({})).is_empty(), "one for everybody is not one for nobody");
}

#[test]
fn a_changed_value_is_noticed_where_it_is() {
    let image = noticed(stateful_set(), CONTAINER, insert("image", json!("evil:1")));
    assert_eq!(image, [format!("{CONTAINER}/image")]);
    let limit = noticed(stateful_set(), &format!("{CONTAINER}/resources/limits"), insert("memory", json!("2Gi")));
    assert_eq!(limit, [format!("{CONTAINER}/resources/limits/memory")]);
    let command = noticed(stateful_set(), &format!("{CONTAINER}/command"), push(json!("--evil")));
    assert_eq!(command, [format!("{CONTAINER}/command")]);
    let label = noticed(service(), "/metadata/labels", insert("app", json!("other")));
    assert_eq!(label, ["/metadata/labels/app"]);
}

#[test]
fn a_removed_value_is_noticed_even_if_it_was_false() {
    let token = noticed(stateful_set(), "/spec/template/spec", remove("automountServiceAccountToken"));
    assert_eq!(token, ["/spec/template/spec/automountServiceAccountToken"]);
    let volume = noticed(stateful_set(), "/spec/template/spec/volumes/0", remove("emptyDir"));
    assert_eq!(volume, ["/spec/template/spec/volumes/0/emptyDir"]);
}

#[test]
fn what_others_put_into_our_lists_is_noticed() {
    let cases = [
        ("/spec/template/spec/containers".to_owned(), json!({ "name": "evil", "image": "evil" })),
        (format!("{CONTAINER}/ports"), json!({ "containerPort": 1, "protocol": "TCP" })),
        (format!("{CONTAINER}/env"), json!({ "name": "EVIL", "value": "1" })),
        (format!("{CONTAINER}/volumeMounts"), json!({ "name": "data", "mountPath": "/evil" })),
        ("/spec/template/spec/volumes".to_owned(), json!({ "name": "evil", "emptyDir": {} })),
    ];
    for (list, item) in cases {
        assert_eq!(noticed(stateful_set(), &list, push(item)), [list]);
    }
}

#[test]
fn an_eviction_carries_the_list_as_it_should_be() {
    let (desired, mut live) = service();
    live["spec"]["ports"][0]["port"] = json!(6380);
    let found = differences(&desired, &live);
    assert_eq!(found[0].kind, DifferenceKind::ExcessItems(desired["spec"]["ports"].clone()));
}

#[test]
fn a_stray_key_in_a_selector_or_in_data_is_noticed() {
    assert_eq!(noticed(service(), "/spec/selector", insert("a/b", json!("c"))), ["/spec/selector/a~1b"]);
    let desired = json!({ "kind": "ConfigMap", "data": { "settings.json": "{}" } });
    assert_eq!(noticed((desired.clone(), desired), "/data", insert("x", json!("y"))), ["/data/x"]);
}

#[test]
fn a_field_we_do_not_set_may_be_set_by_others() {
    assert_eq!(noticed(service(), "/spec", insert("externalIPs", json!(["1.2.3.4"]))), Vec::<String>::new());
    let dns = noticed(stateful_set(), "/spec/template/spec", insert("dnsPolicy", json!("Default")));
    assert_eq!(dns, Vec::<String>::new());
}

#[test]
fn network_policies_and_disruption_budgets_are_ours_as_a_whole() {
    let policy = json!({ "kind": "NetworkPolicy", "spec": { "podSelector": { "matchLabels": { "a": "b" } }, "ingress": [{ "ports": [{ "port": 6379 }] }] } });
    let mut live = policy.clone();
    live["spec"]["ingress"][0]["ports"][0]["protocol"] = json!("TCP");
    assert_eq!(differences(&policy, &live), []);
    let narrowed = noticed((policy.clone(), live.clone()), "/spec/ingress/0", insert("from", json!([])));
    assert_eq!(narrowed, ["/spec/ingress/0/from"]);
    assert_eq!(noticed((policy, live), "/spec/ingress", push(json!({}))), ["/spec/ingress"]);
    let budget = json!({ "kind": "PodDisruptionBudget", "spec": { "minAvailable": "100%" } });
    let opened = noticed((budget.clone(), budget), "/spec", insert("unhealthyPodEvictionPolicy", json!("AlwaysAllow")));
    assert_eq!(opened, ["/spec/unhealthyPodEvictionPolicy"]);
}

#[test]
fn other_owners_may_join_but_ours_must_stay() {
    let owners = "/metadata/ownerReferences";
    assert_eq!(noticed(service(), owners, push(json!({ "kind": "X", "uid": "x" }))), Vec::<String>::new());
    assert_eq!(noticed(service(), &format!("{owners}/0"), insert("controller", json!(false))), [owners]);
}
