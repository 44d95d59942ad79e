//! What is wrong with a spec is said field by field, all of it at once.

mod support;

use api::cluster::{Storage, ValkeyClusterSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use manifests::{Problem, ValidatedCluster};
use support::{case, cluster, settings, validated};

fn problems(spec: ValkeyClusterSpec) -> Vec<Problem> {
    ValidatedCluster::parse(&cluster(spec), &settings("sidecar:v1"), None).err().unwrap_or_default()
}

#[test]
fn every_problem_is_named_with_its_field() {
    let mut spec = case("exporter-serviceMonitor").unwrap();
    spec.valkey_image.tag = "latest".to_owned();
    spec.master_count = 2;
    spec.replicas_per_master = -1;
    spec.pvc = Some(Storage { storage_size: "much".to_owned(), storage_class_name: None });
    spec.resources.limits.insert("memory".to_owned(), Quantity("1GB".to_owned()));
    spec.exporter.service_monitor.interval = "often".to_owned();
    let fields: Vec<String> = problems(spec).into_iter().map(|problem| problem.field).collect();
    let expected = [
        "spec.valkeyImage.tag",
        "spec.pvc.storageSize",
        "spec.exporter.serviceMonitor.interval",
        "spec.resources.limits.memory",
        "spec.masterCount",
        "spec.replicasPerMaster",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn parameters_are_checked_against_the_version() {
    let mut spec = case("minimal").unwrap();
    for name in ["port", "maxmemroy", "slave-priority", "sanitize-dump-payload", "hz"] {
        spec.config.insert(name.to_owned(), "1".to_owned());
    }
    let found: Vec<String> = problems(spec).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(
        found.iter().any(|text| text.starts_with("spec.config[sanitize-dump-payload]: Valkey 9.1.2 does not have"))
    );
    assert!(found.iter().any(|text| text.starts_with("spec.config[port]: port cannot be set")));
}

#[test]
fn an_object_that_was_never_stored_is_refused() {
    let mut stray = cluster(case("minimal").unwrap());
    stray.metadata.uid = None;
    let problems = ValidatedCluster::parse(&stray, &settings("sidecar:v1"), None).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].field, "metadata");
}

#[test]
fn a_shard_with_one_replica_keeps_writing_while_it_restarts() {
    let value = |replicas: i32| {
        let mut spec = case("minimal").unwrap();
        spec.replicas_per_master = replicas;
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
