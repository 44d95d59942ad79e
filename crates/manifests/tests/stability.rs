//! What must not change by itself: pods over an operator's upgrade, volume claim templates over a growth, pods over hot changes.

mod support;

use api::cluster::effective::{Origin, built_in};
use api::names::annotation;
use k8s_openapi::api::apps::v1::StatefulSet;
use manifests::{Live, restart};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::{built, case, spec, validated};

const OLD: &str = "ghcr.io/valkey-operator/sidecar:v0.1.0";
const NEW: &str = "ghcr.io/valkey-operator/sidecar:v0.2.0";

fn annotations(set: &StatefulSet) -> std::collections::BTreeMap<String, String> {
    let template = set.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
    template.and_then(|metadata| metadata.annotations.clone()).unwrap_or_default()
}

#[test]
fn a_newer_operator_leaves_the_pod_template_alone() {
    for (name, spec) in support::cases().unwrap() {
        let before = built(&validated(spec.clone(), OLD, None).unwrap()).stateful_set;
        let after = built(&validated(spec, NEW, Some(&Live::of(&before))).unwrap()).stateful_set;
        assert_eq!(before, after, "{name}");
    }
}

/// What an operator did whose schema still held the defaults: the API server wrote them all into the object.
#[test]
fn an_object_that_was_stored_with_all_defaults_reads_as_if_without() {
    let stored: Value = serde_yaml_ng::from_str(include_str!("stored.yaml")).unwrap();
    // An empty context had the ids in it then; what becomes of such a cluster is below.
    for (name, spec) in support::cases().unwrap().into_iter().filter(|(name, _)| name != "securityContext-empty") {
        let mut full = stored.clone();
        support::merge(&mut full, &serde_json::to_value(&spec).unwrap());
        let before = support::objects(serde_json::from_value(full).unwrap()).unwrap();
        assert_eq!(support::objects(spec).unwrap(), before, "{name}");
    }
}

#[test]
fn a_tag_left_out_takes_no_cluster_to_an_older_valkey_than_it_runs() {
    let running = |tag: &str| {
        let before = spec(&json!({"valkeyImage": {"tag": tag}}));
        built(&validated(before, OLD, None).unwrap()).stateful_set
    };
    let afterwards = |before: &StatefulSet| {
        let after = validated(case("minimal").unwrap(), NEW, Some(&Live::of(before))).unwrap();
        (after.valkey_image, after.origins["spec.valkeyImage.tag"])
    };
    let image = |tag: &str| format!("{}:{tag}", built_in::VALKEY_NAME);
    assert_eq!(afterwards(&running("9.9.1-alpine")), (image("9.9.1-alpine"), Origin::Running));
    assert_eq!(afterwards(&running("8.1")), (image(built_in::VALKEY_TAG), Origin::BuiltIn));
}

/// Its tag says nothing of the version, so what is kept is the whole image.
#[test]
fn an_image_left_out_that_says_no_version_takes_nobody_to_an_older_valkey() {
    let afterwards = |version: &str, spec: Value| {
        let image = json!({"name": "example.com/ours", "tag": "mirrored", "version": version, "imagePullSecrets": [{"name": "registry"}]});
        let before = built(&validated(support::spec(&json!({"valkeyImage": image})), OLD, None).unwrap()).stateful_set;
        let after = validated(support::spec(&spec), NEW, Some(&Live::of(&before))).unwrap();
        let unchanged = annotations(&before)[annotation::RESTART_REVISION] == restart::revision(&after.restart_inputs);
        (after.valkey_image.clone(), after.version.to_string(), after.image_pull_secrets.len(), unchanged)
    };
    let kept = |version: &str| ("example.com/ours:mirrored".to_owned(), version.to_owned(), 1, true);
    assert_eq!(afterwards("9.9", json!({})), kept("9.9"));
    assert_eq!(afterwards("9.1", json!({})), kept("9.1"), "it may be later than the default one of 9.1");
    let default = format!("{}:{}", built_in::VALKEY_NAME, built_in::VALKEY_TAG);
    assert_eq!(afterwards("8.1", json!({})), (default, built_in::VALKEY_TAG.to_owned(), 0, false));
    let (image, version, secrets, _) = afterwards("9.9", json!({"valkeyImage": {"tag": "9.9.1"}}));
    assert_eq!((image, version, secrets), (format!("{}:9.9.1", built_in::VALKEY_NAME), "9.9.1".to_owned(), 0));
}

/// A container's environment is the same in every order, unless a variable holds the value of another.
#[test]
fn the_order_of_variables_and_what_is_filled_in_restart_nothing() {
    let revision = |env: Value| {
        let cluster = validated(spec(&json!({ "env": env })), OLD, None).unwrap();
        restart::revision(&cluster.restart_inputs)
    };
    let (one, two) = (json!({"name": "A", "value": "1"}), json!({"name": "B", "value": "2"}));
    assert_eq!(revision(json!([one, two])), revision(json!([two, one])));
    assert_ne!(revision(json!([one, two])), revision(json!([one])));
    let refers = json!({"name": "B", "value": "$(A)"});
    assert_ne!(revision(json!([one, refers])), revision(json!([refers, one])));
    let field = |more: Value| {
        let mut field = json!({"fieldPath": "metadata.name"});
        support::merge(&mut field, &more);
        revision(json!([{"name": "ME", "valueFrom": {"fieldRef": field}}, {"name": "EMPTY", "value": ""}]))
    };
    assert_eq!(field(json!({"apiVersion": ""})), field(json!({"apiVersion": "v1"})));
    assert_eq!(field(json!({})), field(json!({"apiVersion": "v1"})));
}

#[test]
fn what_the_api_server_would_fill_in_is_not_written() {
    let empty = json!([{"name": "ME", "value": "", "valueFrom": {
        "fieldRef": {"apiVersion": "", "fieldPath": "metadata.name"},
        "resourceFieldRef": {"containerName": "", "resource": "limits.cpu"}}}]);
    let set = built(&validated(spec(&json!({ "env": empty })), OLD, None).unwrap()).stateful_set;
    let env = &serde_json::to_value(set).unwrap()["spec"]["template"]["spec"]["containers"][0]["env"];
    let plain = json!([{"name": "ME", "valueFrom": {
        "fieldRef": {"fieldPath": "metadata.name"}, "resourceFieldRef": {"resource": "limits.cpu"}}}]);
    assert_eq!(env, &plain);
}

/// Its user is in no group that the files would belong to.
#[test]
fn without_ids_of_ours_the_sidecar_can_read_certificate_and_token() {
    let modes = |name: &str| {
        let set = built(&validated(case(name).unwrap(), OLD, None).unwrap()).stateful_set;
        let volumes = set.spec.unwrap().template.spec.unwrap().volumes.unwrap();
        let modes = volumes.iter().filter_map(|volume| {
            let secret = volume.secret.as_ref().and_then(|secret| secret.default_mode);
            secret.or(volume.projected.as_ref().and_then(|projected| projected.default_mode))
        });
        modes.collect::<Vec<_>>()
    };
    assert_eq!(modes("securityContext-empty"), [0o444; 2]);
    assert_eq!((modes("minimal"), modes("securityContext")), (vec![0o440; 2], vec![0o440; 2]));
}

#[test]
fn an_image_that_somebody_wrote_into_the_template_is_not_kept() {
    let mut set = built(&validated(case("minimal").unwrap(), OLD, None).unwrap()).stateful_set;
    let pod = set.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    pod.containers[0].image = Some(format!("{}:99.1", built_in::VALKEY_NAME));
    let after = validated(case("minimal").unwrap(), NEW, Some(&Live::of(&set))).unwrap();
    assert_eq!(after.spec.valkey_image.tag, built_in::VALKEY_TAG);
}

#[test]
fn the_tag_of_the_object_wins_over_the_running_one() {
    let before = built(&validated(spec(&json!({"valkeyImage": {"tag": "9.9"}})), OLD, None).unwrap()).stateful_set;
    let after = validated(spec(&json!({"valkeyImage": {"tag": "8.1"}})), OLD, Some(&Live::of(&before))).unwrap();
    assert_eq!(after.spec.valkey_image.tag, "8.1");
}

#[test]
fn a_restart_that_is_due_anyway_brings_the_newer_sidecar_and_then_it_stays() {
    let before = built(&validated(case("minimal").unwrap(), OLD, None).unwrap()).stateful_set;
    let changed = validated(case("resources").unwrap(), NEW, Some(&Live::of(&before))).unwrap();
    assert_eq!(changed.sidecar_image, NEW);
    let after = built(&changed).stateful_set;
    let again =
        validated(case("resources").unwrap(), "ghcr.io/valkey-operator/sidecar:v0.3.0", Some(&Live::of(&after)));
    assert_eq!(again.unwrap().sidecar_image, NEW);
}

#[test]
fn a_hot_change_alone_does_not_bring_a_newer_sidecar() {
    let before = built(&validated(case("minimal").unwrap(), OLD, None).unwrap()).stateful_set;
    let after = built(&validated(case("config-hot").unwrap(), NEW, Some(&Live::of(&before))).unwrap()).stateful_set;
    assert_eq!(before, after);
}

#[test]
fn the_sidecar_image_of_the_spec_wins_over_all() {
    let before = built(&validated(case("minimal").unwrap(), OLD, None).unwrap()).stateful_set;
    let after = validated(case("sidecarImage").unwrap(), NEW, Some(&Live::of(&before))).unwrap();
    assert_eq!(after.sidecar_image, "ghcr.io/valkeyoperatorsidecar:v1.0");
}

#[test]
fn a_growing_volume_leaves_the_claim_template_alone_and_names_the_new_size() {
    let mut spec = case("pvc").unwrap();
    let before = built(&validated(spec.clone(), OLD, None).unwrap()).stateful_set;
    spec.pvc.as_mut().unwrap().storage_size = Some("40Gi".to_owned());
    let grown = validated(spec, OLD, Some(&Live::of(&before))).unwrap();
    assert_eq!(grown.storage.as_ref().unwrap().size.whole_units(), 40 << 30);
    assert_eq!(built(&grown).stateful_set, before);
}

/// What an empty context meant before it meant the platform's choice.
#[test]
fn a_cluster_that_was_made_with_ids_keeps_them_and_one_that_was_made_without_has_none() {
    let ids = |set: &StatefulSet| {
        let context = set.spec.as_ref().unwrap().template.spec.as_ref().unwrap().security_context.clone().unwrap();
        [context.run_as_user, context.run_as_group, context.fs_group]
    };
    let of = |name: &str, live: Option<&Live>| built(&validated(case(name).unwrap(), OLD, live).unwrap()).stateful_set;
    let (with, without) = (of("minimal", None), of("securityContext-empty", None));
    assert_eq!((ids(&with), ids(&without)), ([Some(999); 3], [None; 3]));
    assert_eq!(of("securityContext-empty", Some(&Live::of(&with))), with);
    assert_eq!(of("securityContext-empty", Some(&Live::of(&without))), without);
    let taken_back = of("minimal", Some(&Live::of(&without)));
    assert_eq!(ids(&taken_back), [Some(999); 3]);
    let pending = restart::pending(&annotations(&without), &annotations(&taken_back));
    assert_eq!(pending, Some(["securityContext".to_owned()].into()), "pods from before it wait for a restart");
}

#[test]
fn an_unready_pod_may_be_moved_only_where_every_write_is_on_a_volume() {
    let policy = |fields: Value| {
        let budget = built(&validated(spec(&fields), OLD, None).unwrap()).disruption_budget;
        budget.spec.unwrap().unhealthy_pod_eviction_policy.unwrap()
    };
    let (pvc, log) =
        (json!({"storageSize": "1Gi"}), |fsync: &str| json!({"aof": {"enabled": true, "appendfsync": fsync}}));
    assert_eq!(policy(json!({"pvc": pvc, "backup": log("everysec")})), "AlwaysAllow");
    assert_eq!(policy(json!({"backup": log("always")})), "IfHealthyBudget");
    assert_eq!(policy(json!({"pvc": pvc})), "IfHealthyBudget", "unready may mean that no snapshot can be written");
    assert_eq!(policy(json!({"pvc": pvc, "backup": log("no")})), "IfHealthyBudget", "nobody knows when it is written");
}

#[test]
fn what_is_pending_is_named() {
    let old = annotations(&built(&validated(case("minimal").unwrap(), OLD, None).unwrap()).stateful_set);
    let mut spec = case("config-restart").unwrap();
    spec.priority_class_name = Some("important".to_owned());
    let new = annotations(&built(&validated(spec, OLD, None).unwrap()).stateful_set);
    let expected: BTreeSet<String> = ["config.tcp-backlog", "priorityClassName"].map(str::to_owned).into();
    assert_eq!(restart::pending(&old, &new), Some(expected));
    assert_eq!(restart::pending(&new, &new), Some(BTreeSet::new()));
}

#[test]
fn a_pod_that_does_not_say_is_not_taken_for_up_to_date() {
    let template = annotations(&built(&validated(case("minimal").unwrap(), OLD, None).unwrap()).stateful_set);
    assert_eq!(restart::pending(&[(annotation::CR.to_owned(), "x".to_owned())].into(), &template), None);
}

#[test]
fn a_parameter_that_is_hot_in_one_version_only_needs_a_restart_in_the_other() {
    let keys = |tag: &str| {
        let spec = spec(&json!({"valkeyImage": {"tag": tag}, "config": {"io-threads": "2"}}));
        validated(spec, OLD, None).unwrap().restart_inputs.contains_key("config.io-threads")
    };
    assert!(keys("8.1.1") && !keys("9.1.2"));
}

#[test]
fn new_settings_show_on_running_pods_and_not_on_the_template() {
    let [before, after] = ["minimal", "config-hot"].map(|name| validated(case(name).unwrap(), OLD, None).unwrap());
    let revision = |cluster| manifests::live_pod_annotations(cluster)[annotation::SETTINGS_REVISION].clone();
    assert_ne!(revision(&before), revision(&after));
    assert!(!annotations(&built(&after).stateful_set).contains_key(annotation::SETTINGS_REVISION));
}

/// The image `valkey-bundle` was run without its modules before there were any in the spec.
#[test]
fn a_bundle_that_runs_without_its_modules_gets_them_only_when_they_are_named() {
    let bundle = |more: Value| {
        let mut spec = json!({"valkeyImage": {"name": "valkey/valkey-bundle", "tag": "9.1"}});
        support::merge(&mut spec, &more);
        serde_json::from_value(spec).unwrap()
    };
    let modules = |cluster: &manifests::ValidatedCluster| cluster.spec.modules.len();
    let fresh = validated(bundle(json!({})), OLD, None).unwrap();
    let without = built(&validated(bundle(json!({"modules": []})), OLD, None).unwrap()).stateful_set;
    let upgraded = validated(bundle(json!({})), NEW, Some(&Live::of(&without))).unwrap();
    assert_eq!((modules(&fresh), modules(&upgraded)), (4, 0));
    assert_eq!(built(&upgraded).stateful_set, without);
    let again = validated(bundle(json!({})), NEW, Some(&Live::of(&built(&fresh).stateful_set))).unwrap();
    assert_eq!(modules(&again), 4);
    let plain = built(&validated(case("minimal").unwrap(), OLD, None).unwrap()).stateful_set;
    let changed = validated(bundle(json!({})), NEW, Some(&Live::of(&plain))).unwrap();
    assert_eq!(modules(&changed), 4, "another image was asked for");
}

/// A selector cannot change, so what selects the pods of existing clusters is all that ever will.
#[test]
fn the_label_app_is_on_pods_alone_and_selects_nothing() {
    let objects = built(&validated(case("minimal").unwrap(), OLD, None).unwrap());
    let set = objects.stateful_set.spec.unwrap();
    let pod = set.template.metadata.unwrap().labels.unwrap();
    assert_eq!(pod["app"], "valkey-poc");
    assert!(!set.selector.match_labels.unwrap().contains_key("app"));
    let service = objects.client_service;
    assert!(!service.spec.unwrap().selector.unwrap().contains_key("app"));
    assert!(!service.metadata.labels.unwrap().contains_key("app"));
}

#[test]
fn pods_from_before_they_had_an_identity_are_behind_in_that_alone() {
    let template = annotations(&built(&validated(case("minimal").unwrap(), OLD, None).unwrap()).stateful_set);
    let mut inputs: restart::Inputs = serde_json::from_str(&template[annotation::RESTART_INPUTS]).unwrap();
    inputs.remove("operatorMtls");
    let pod = restart::annotations(&inputs).into();
    assert_eq!(restart::pending(&pod, &template), Some(["operatorMtls".to_owned()].into()));
}

#[test]
fn only_the_sidecar_sees_certificate_and_token() {
    let cluster = validated(case("full").unwrap(), OLD, None).unwrap();
    let pod = built(&cluster).stateful_set.spec.unwrap().template.spec.unwrap();
    let sees = |container: &k8s_openapi::api::core::v1::Container| {
        let private = ["operator-mtls", "operator-token"];
        container.volume_mounts.iter().flatten().filter(|mount| private.contains(&mount.name.as_str())).count()
    };
    assert_eq!(pod.init_containers.iter().flatten().map(sees).collect::<Vec<_>>(), [2]);
    assert!(pod.containers.iter().all(|container| sees(container) == 0));
}

#[test]
fn the_first_copy_to_a_replica_starts_at_once_unless_the_user_says_otherwise() {
    let delay = |config: &[(&str, &str)]| {
        let mut spec = case("minimal").unwrap();
        spec.config = Some(config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
        validated(spec, OLD, None).unwrap().parameters["repl-diskless-sync-delay"].clone()
    };
    assert_eq!((delay(&[]), delay(&[("repl-diskless-sync-delay", "3")])), ("0".to_owned(), "3".to_owned()));
}

#[test]
fn with_a_workload_api_the_sidecar_alone_has_its_socket_and_nobody_has_the_secret() {
    let cluster = support::cluster(case("minimal").unwrap());
    let mut settings = support::settings(OLD);
    let built_in = built(&support::parse(&cluster, &settings, None).unwrap()).stateful_set;
    let line = settings.line.as_mut().unwrap();
    line.workload_api_socket = Some("unix:///spiffe-workload-api/spire-agent.sock".to_owned());
    let set = built(&support::parse(&cluster, &settings, None).unwrap()).stateful_set;
    let pending = restart::pending(&annotations(&built_in), &annotations(&set));
    assert_eq!(pending, Some(["operatorMtls".to_owned()].into()));
    let pod = set.spec.unwrap().template.spec.unwrap();
    let volumes = pod.volumes.unwrap();
    assert!(volumes.iter().all(|volume| volume.secret.is_none()));
    let socket = volumes.iter().find(|volume| volume.csi.is_some()).unwrap();
    let csi = socket.csi.as_ref().unwrap();
    assert_eq!((csi.driver.as_str(), csi.read_only), ("csi.spiffe.io", Some(true)));
    let mounts = |container: &k8s_openapi::api::core::v1::Container| {
        let found = container.volume_mounts.iter().flatten().find(|mount| mount.name == socket.name).cloned();
        found.map(|mount| (mount.mount_path, mount.read_only))
    };
    let expected = Some(("/spiffe-workload-api".to_owned(), Some(true)));
    assert_eq!(pod.init_containers.unwrap().iter().map(mounts).collect::<Vec<_>>(), [expected]);
    assert!(pod.containers.iter().all(|container| mounts(container).is_none()));
}
