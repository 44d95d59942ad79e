//! What is wrong with a spec is said field by field, all of it at once.

mod support;

use api::cluster::ValkeyClusterSpec;
use manifests::{Live, Problem};
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
    assert_eq!(found.len(), 4, "{found:#?}");
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
