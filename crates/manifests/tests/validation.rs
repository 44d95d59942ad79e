//! What is wrong with a spec is said field by field, all of it at once.

mod support;

use api::cluster::ValkeyClusterSpec;
use api::cluster::effective::{Layers, resolve};
use manifests::{Live, Problem, ValidatedCluster};
use serde_json::{Value, json};
use support::{built, case, cluster, parse, settings, spec, validated};

fn problems(spec: ValkeyClusterSpec) -> Vec<Problem> {
    parse(&cluster(spec), &settings("sidecar:v1"), None).err().unwrap_or_default()
}

fn fields(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.field.as_str()).collect()
}

#[test]
fn every_problem_is_named_with_its_field() {
    let spec = spec(&json!({
        "valkeyImage": {"tag": "latest"}, "masterCount": 2, "replicasPerMaster": -1, "pvc": {"storageSize": "much"},
        "resources": {"limits": {"memory": "1GB"}},
        "exporter": {"enabled": true, "serviceMonitor": {"enabled": true, "interval": "often"}},
    }));
    let problems = problems(spec);
    let expected = [
        "spec.valkeyImage.tag",
        "spec.pvc.storageSize",
        "spec.exporter.serviceMonitor.interval",
        "spec.resources.limits.memory",
        "spec.masterCount",
        "spec.replicasPerMaster",
    ];
    assert_eq!(fields(&problems), expected);
}

#[test]
fn rules_across_fields_hold_for_the_spec_with_its_defaults() {
    let cases = [
        (json!({"replication": {"minReplicasToWrite": 2}}), "spec.replication.minReplicasToWrite"),
        (json!({"masterCount": 501}), "spec.masterCount"),
        (
            json!({"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2000Mi"}}}),
            "spec.resources.requests.memory",
        ),
        (json!({"config": {"sanitize-dump-payload": "no"}}), "spec.config[sanitize-dump-payload]"),
        (json!({"pvc": {"storageClassName": "fast"}}), "spec.pvc.storageSize"),
        (json!({"sidecarResources": {"limits": {"memory": "31Mi"}}}), "spec.sidecarResources.limits.memory"),
        (json!({"sidecarResources": {"limits": {"cpu": "much"}}}), "spec.sidecarResources.limits.cpu"),
        (json!({"env": [{"name": "POD_IP", "value": "10.0.0.1"}]}), "spec.env[POD_IP]"),
        (
            json!({"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "other-mtls", "key": "tls.key"}}}]}),
            "spec.env[KEY].valueFrom.secretKeyRef.name",
        ),
        (
            json!({"env": [{"name": "CPU", "valueFrom": {"resourceFieldRef": {"containerName": "exporter", "resource": "limits.cpu"}}}]}),
            "spec.env[CPU].valueFrom.resourceFieldRef.containerName",
        ),
        (json!({"priorityClassName": "Important"}), "spec.priorityClassName"),
        (json!({"runtimeClassName": "a..b"}), "spec.runtimeClassName"),
        (json!({"env": [{"name": "NOTE", "value": "a\u{85}b"}]}), "spec.env[NOTE]"),
        (json!({"service": {"annotations": {"note": "a\u{85}b"}}}), "spec.service.annotations[note]"),
        (json!({"networkPolicy": {"from": [{"podSelector": {}}, {}]}}), "spec.networkPolicy.from[1]"),
        (
            json!({"networkPolicy": {"metricsFrom": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}}),
            "spec.networkPolicy.metricsFrom[0]",
        ),
        (json!({"networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0"}}]}}), "spec.networkPolicy.from[0]"),
    ];
    for (fields_of_spec, expected) in cases {
        assert_eq!(fields(&problems(spec(&fields_of_spec))), [expected], "{fields_of_spec}");
    }
    assert!(problems(spec(&json!({"masterCount": 500}))).is_empty());
}

/// Each half of what a rule compares may come from another layer; the object alone then says nothing against any.
#[test]
fn rules_across_fields_hold_across_layers() {
    let memory = |part: &str, size: &str| json!({part: {"memory": size}});
    let monitored = |resources: Value| json!({"exporter": {"enabled": true, "resources": resources}});
    let cases = [
        (json!({"masterCount": 400}), json!({"replicasPerMaster": 2}), "spec.masterCount"),
        (json!({"replicasPerMaster": 2}), json!({"masterCount": 400}), "spec.masterCount"),
        (
            json!({"replication": {"minReplicasToWrite": 2}}),
            json!({"replicasPerMaster": 1}),
            "spec.replication.minReplicasToWrite",
        ),
        (
            json!({"resources": memory("requests", "2Gi")}),
            json!({"resources": memory("limits", "1Gi")}),
            "spec.resources.requests.memory",
        ),
        (
            monitored(memory("limits", "1Gi")),
            monitored(memory("requests", "2Gi")),
            "spec.exporter.resources.requests.memory",
        ),
        (
            json!({"sidecarResources": memory("requests", "2Gi")}),
            json!({"sidecarResources": memory("limits", "1Gi")}),
            "spec.sidecarResources.requests.memory",
        ),
        (json!({"valkeyImage": {"tag": "8.1"}}), json!({"config": {"mptcp": "yes"}}), "spec.config[mptcp]"),
        (
            json!({"valkeyImage": {"tag": "mirrored", "version": "8.1"}}),
            json!({"config": {"mptcp": "yes"}}),
            "spec.config[mptcp]",
        ),
        (
            json!({"config": {"sanitize-dump-payload": "no"}}),
            json!({"valkeyImage": {"tag": "9.1"}}),
            "spec.config[sanitize-dump-payload]",
        ),
        (
            json!({"valkeyImage": {"version": "9.1"}}),
            json!({"valkeyImage": {"tag": "mirrored"}}),
            "spec.valkeyImage.tag",
        ),
    ];
    for (namespace, object, expected) in cases {
        let [low, high] = [&namespace, &object].map(spec);
        let layers = Layers { cluster_namespace: Some(&low), ..Layers::of(&high) };
        let metadata = cluster(high.clone()).metadata;
        let found = ValidatedCluster::parse(&metadata, resolve(layers), &settings("sidecar:v1"), None);
        let found = found.err().unwrap_or_default();
        assert_eq!(fields(&found), [expected], "{namespace} {object}");
    }
}

/// A rule that looks at more than one field sees only what the object says. Whoever adds one here has added it above, or to
/// `volumes_cannot_come_go_or_move`.
#[test]
fn every_rule_across_fields_is_checked_by_the_operator_too() {
    let definition = serde_json::to_value(api::definition::valkey_cluster()).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let mut found = Vec::new();
    rules_across_fields("spec", definition.pointer(spec).unwrap(), &mut found);
    found.sort();
    let expected = [
        "spec.config",
        "spec.config",
        "spec.exporter.resources",
        "spec.masterCount",
        "spec.pvc",
        "spec.pvc.storageClassName",
        "spec.replication.minReplicasToWrite",
        "spec.resources",
        "spec.sidecarResources",
        "spec.sidecarResources",
        "spec.valkeyImage.tag",
        "spec.valkeyImage.version",
    ];
    assert_eq!(found, expected);
}

fn rules_across_fields(place: &str, schema: &Value, found: &mut Vec<String>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    found.extend(rules.map(|rule| format!("{place}{}", rule["fieldPath"].as_str().unwrap_or_default())));
    for (name, field) in properties {
        rules_across_fields(&format!("{place}.{name}"), field, found);
    }
}

#[test]
fn the_version_is_what_was_said_for_this_tag_or_else_what_the_tag_begins_with() {
    let image = |fields: Value| spec(&json!({ "valkeyImage": fields }));
    let read = |namespace: Value, object: Value| {
        let (namespace, object) = (image(namespace), image(object));
        let layers = Layers { cluster_namespace: Some(&namespace), ..Layers::of(&object) };
        let parsed =
            ValidatedCluster::parse(&cluster(object.clone()).metadata, resolve(layers), &settings("sidecar:v1"), None);
        parsed.map(|cluster| cluster.version.to_string()).map_err(|problems| fields(&problems).join(" "))
    };
    let none = || json!({});
    assert_eq!(read(none(), json!({"tag": "mirrored", "version": "9.1"})), Ok("9.1".to_owned()));
    assert_eq!(read(none(), json!({"tag": "10.4-ours", "version": "8.1.4"})), Ok("8.1.4".to_owned()));
    assert_eq!(read(json!({"tag": "mirrored", "version": "8.1"}), json!({"tag": "9.1.2"})), Ok("9.1.2".to_owned()));
    assert_eq!(read(json!({"tag": "mirrored", "version": "8.1"}), none()), Ok("8.1".to_owned()));
    assert_eq!(read(none(), json!({"tag": "mirrored"})), Err("spec.valkeyImage.tag".to_owned()));
    assert_eq!(read(none(), json!({"tag": "mirrored", "version": "new"})), Err("spec.valkeyImage.version".to_owned()));
    assert_eq!(read(none(), json!({"tag": "7.2"})), Err("spec.valkeyImage.tag".to_owned()));
}

#[test]
fn volumes_cannot_come_go_or_move() {
    let with = json!({"pvc": {"storageSize": "1Gi", "storageClassName": "fast"}});
    let moved = json!({"pvc": {"storageSize": "1Gi", "storageClassName": "slow"}});
    let default_class = json!({"pvc": {"storageSize": "1Gi"}});
    let after = |before: &Value, change: &Value| {
        let live = Live::of(&built(&validated(spec(before), "sidecar:v1", None).unwrap()).stateful_set);
        let refused = parse(&cluster(spec(change)), &settings("sidecar:v1"), Some(&live)).err().unwrap_or_default();
        refused.into_iter().map(|problem| problem.field).collect::<Vec<_>>()
    };
    let smaller = json!({"pvc": {"storageSize": "1023Mi", "storageClassName": "fast"}});
    assert_eq!(after(&with, &smaller), ["spec.pvc.storageSize"]);
    assert_eq!(after(&json!({}), &with), ["spec.pvc"]);
    assert_eq!(after(&with, &json!({})), ["spec.pvc"]);
    assert_eq!(after(&with, &moved), ["spec.pvc.storageClassName"]);
    assert_eq!(after(&default_class, &with), ["spec.pvc.storageClassName"]);
    assert!(after(&with, &with).is_empty() && after(&json!({}), &json!({})).is_empty());
}

#[test]
fn parameters_are_checked_against_the_version() {
    let spec = spec(&json!({
        "config": {"port": "1", "maxmemroy": "1", "slave-priority": "1", "sanitize-dump-payload": "1", "hz": "1"},
    }));
    let found: Vec<String> = problems(spec).iter().map(ToString::to_string).collect();
    // Of maxmemroy the servers know more.
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found.iter().any(|text| text.starts_with("spec.config[sanitize-dump-payload]: Valkey 9.1.2 does not have"))
    );
    assert!(found.iter().any(|text| text.starts_with("spec.config[port]: port cannot be set")));
}

#[test]
fn a_text_that_would_not_arrive_as_it_is_written_is_refused_by_the_name_of_its_field() {
    let spec = spec(&json!({
        "config": { "locale-collate": "C\u{85}", "proc-title-template": "{title}\u{2028}", "hz": "1\t", "loglevel": "\u{1b}[1m" },
        "annotations": { "note": "one\u{85}two", "lines": "one\n\ttwo ä" },
    }));
    let found: Vec<String> = problems(spec).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 4, "{found:#?}");
    let says = |begin: &str| found.iter().any(|text| text.starts_with(begin));
    assert!(says("spec.config[locale-collate]: holds U+0085, which is not printed: write the value in one line"));
    assert!(says("spec.config[proc-title-template]: holds U+2028") && says("spec.config[loglevel]: holds U+001B"));
    assert!(
        says("spec.annotations[note]: holds U+0085, which the API server does not keep: take it out"),
        "{found:#?}"
    );
}

#[test]
fn an_object_that_was_never_stored_is_refused() {
    let mut stray = cluster(case("minimal").unwrap());
    stray.metadata.uid = None;
    let problems = parse(&stray, &settings("sidecar:v1"), None).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].field, "metadata");
}

#[test]
fn a_shard_with_one_replica_keeps_writing_while_it_restarts() {
    let value = |replicas: i32| {
        let spec = spec(&json!({"replicasPerMaster": replicas}));
        validated(spec, "sidecar:v1", None).unwrap().parameters["min-replicas-to-write"].clone()
    };
    assert_eq!((value(0), value(1), value(2)), ("0".to_owned(), "0".to_owned(), "1".to_owned()));
}

#[test]
fn fields_reach_valkey_in_its_own_words() {
    let parameters = validated(case("backup").unwrap(), "sidecar:v1", None).unwrap().parameters;
    let expected =
        [("save", ""), ("appendonly", "yes"), ("appendfsync", "always"), ("auto-aof-rewrite-min-size", "128mb")];
    for (name, value) in expected {
        assert_eq!(parameters[name], value, "{name}");
    }
}

#[test]
fn pull_secrets_of_all_images_are_there_once() {
    let secrets = validated(case("full").unwrap(), "sidecar:v1", None).unwrap().image_pull_secrets;
    assert_eq!(secrets.len(), 1);
}
