//! Single decisions: whose objects are touched, what the report and the status say.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use k8s_openapi::jiff::Timestamp;
use manifests::OperatorSettings;
use planner::nodes::{NodeFacts, NodeObservation, PodObservation, Valkey};
use planner::{
    ChildKey, ChildKind, ClaimFacts, Identity, Observation, Observed, Plan, PodFacts, Shape, Step, child_manifests,
    expected_keys, plan, status, validate,
};
use serde_json::{Value, json};
use topology::NodeId;

fn cluster(spec: Value) -> ValkeyCluster {
    let metadata = json!({ "name": "poc", "namespace": "test", "uid": "cluster-uid", "generation": 4 });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

fn settings() -> OperatorSettings {
    OperatorSettings { sidecar_image: "sidecar:1".to_owned(), line: None }
}

fn empty() -> Observation {
    let cluster = Identity {
        name: "poc".into(),
        namespace: "test".into(),
        uid: "cluster-uid".into(),
        generation: Some(4),
        deleting: false,
    };
    Observation { cluster, ..Observation::default() }
}

fn now(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn decide(spec: Value, observation: &Observation) -> Plan {
    let validated = validate(&cluster(spec), &settings(), observation);
    plan(validated.as_ref().map_err(Vec::as_slice), observation, now(1))
}

fn service() -> ChildKey {
    ChildKey::new(ChildKind::Service, "poc")
}

/// The plan when an object of the client Service's name is there already.
fn decide_with_service(metadata: Value) -> Plan {
    let mut observation = empty();
    observation.children.insert(service(), Observed::Object(json!({ "metadata": metadata })));
    decide(json!({}), &observation)
}

fn touches(plan: &Plan, wanted: &ChildKey) -> bool {
    plan.steps.iter().any(|step| match step {
        Step::Apply(apply) => apply.key == *wanted,
        Step::Delete { key, .. } | Step::Release { key, .. } => key == wanted,
        _ => false,
    })
}

#[test]
fn a_new_cluster_gets_its_objects_in_order_with_the_stateful_set_last() {
    let kinds: Vec<String> = decide(json!({}), &empty()).steps.iter().map(ToString::to_string).collect();
    assert_eq!(kinds.first().unwrap(), "create ServiceAccount poc-valkey");
    assert_eq!(kinds.last().unwrap(), "create StatefulSet poc");
    assert_eq!(kinds.len(), 7);
}

/// Whoever follows the advice must not lose data by it.
#[test]
fn nobody_is_advised_to_delete_a_stateful_set_that_runs_pods_of_the_cluster() {
    let mut observation = empty();
    let labels = json!({ "app.kubernetes.io/managed-by": "valkey-operator", "app.kubernetes.io/instance": "poc" });
    let set = json!({ "metadata": { "name": "poc", "uid": "set" }, "spec": { "replicas": 6,
        "template": { "metadata": { "labels": labels } } } });
    let key = ChildKey::new(ChildKind::StatefulSet, "poc");
    observation.children.insert(key.clone(), Observed::Object(set));
    let plan = decide(json!({}), &observation);
    let said = &plan.report.troubles[0].message;
    assert!(said.contains("kubectl annotate statefulset poc valkey.io/cr=poc") && !said.contains("Delete"), "{said}");
    assert!(!touches(&plan, &key));
}

/// With a StatefulSet of an age.
fn with_stateful_set(created: &str, annotations: Value) -> Observation {
    let mut observation = empty();
    let owner = json!([{ "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "name": "poc", "controller": true,
        "uid": observation.cluster.uid }]);
    let set = json!({ "metadata": { "name": "poc", "uid": "set", "generation": 1, "creationTimestamp": created,
        "annotations": annotations, "ownerReferences": owner },
        "spec": { "replicas": 6 }, "status": { "observedGeneration": 1 } });
    observation.children.insert(ChildKey::new(ChildKind::StatefulSet, "poc"), Observed::Object(set));
    observation
}

/// With a StatefulSet of an age, and none of its pods there.
fn without_pods(created: &str, nudged: Option<&str>) -> Vec<Step> {
    let annotations = nudged.map(|at| json!({ "valkey.io/nudged-at": at })).unwrap_or_default();
    let plan = decide(json!({}), &with_stateful_set(created, annotations));
    plan.steps.into_iter().filter(|step| matches!(step, Step::Nudge { .. })).collect()
}

/// Its controller waits up to a quarter of an hour after a pod could not be made, whatever has changed since.
#[test]
fn a_stateful_set_whose_pods_do_not_come_is_nudged_now_and_then() {
    let at = |ago: i64| now(1 - ago).to_string();
    assert!(without_pods(&at(3), None).is_empty(), "pods take a moment");
    assert_eq!(without_pods(&at(60), None).len(), 1);
    assert!(without_pods(&at(60), Some(&at(3))).is_empty());
    assert_eq!(without_pods(&at(60), Some(&at(20))).len(), 1);
}

#[test]
fn everything_that_can_be_wanted_is_looked_for() {
    let full = json!({ "readService": { "enabled": true }, "exporter": { "enabled": true, "serviceMonitor": { "enabled": true } } });
    for spec in [json!({}), full, json!({ "networkPolicy": { "enabled": false } })] {
        let validated = validate(&cluster(spec.clone()), &settings(), &empty()).unwrap();
        let expected = expected_keys(&cluster(spec));
        assert!(
            child_manifests(&validated, &Shape::of_spec(&validated)).keys().all(|key| expected.contains(key)),
            "{expected:?}"
        );
        assert_eq!(child_manifests(&validated, &Shape::of_spec(&validated)).len(), expected.len());
    }
}

#[test]
fn an_object_of_somebody_else_is_left_alone_and_its_owner_is_named() {
    let owned = json!({ "uid": "x", "ownerReferences": [{ "kind": "Deployment", "name": "shop", "uid": "d", "controller": true }] });
    let helm = json!({ "uid": "x", "labels": { "app.kubernetes.io/managed-by": "Helm" } });
    for (metadata, owner) in [(owned, "Deployment shop"), (helm, "managed by Helm"), (json!({ "uid": "x" }), "by hand")]
    {
        let plan = decide_with_service(metadata);
        assert!(!touches(&plan, &service()));
        let trouble = &plan.report.troubles[0];
        assert_eq!(trouble.reason.as_str(), "NameTaken");
        assert!(trouble.message.contains(owner), "{}", trouble.message);
        assert_eq!(plan.steps.len(), 6, "the others are made all the same");
    }
}

#[test]
fn pods_are_not_started_with_the_settings_of_somebody_else() {
    let mut observation = empty();
    let settings = ChildKey::new(ChildKind::ConfigMap, "poc-config");
    observation.children.insert(settings, Observed::Object(json!({ "metadata": { "uid": "x" } })));
    let plan = decide(json!({}), &observation);
    assert!(!touches(&plan, &ChildKey::new(ChildKind::StatefulSet, "poc")));
    assert_eq!(plan.report.waiting, ["StatefulSet poc is made once ConfigMap poc-config is there"]);
    assert_eq!(plan.steps.len(), 5, "the others are made all the same");
}

#[test]
fn an_orphan_of_ours_is_taken_back_and_an_earlier_cluster_is_waited_for() {
    let marks = json!({ "uid": "x", "labels": { "app.kubernetes.io/managed-by": "valkey-operator" }, "annotations": { "valkey.io/cr": "poc" } });
    assert!(touches(&decide_with_service(marks.clone()), &service()));
    let mut earlier = marks;
    earlier["ownerReferences"] = json!([{ "kind": "ValkeyCluster", "name": "poc", "uid": "old", "controller": true }]);
    let plan = decide_with_service(earlier);
    assert!(!touches(&plan, &service()));
    assert!(plan.report.troubles[0].message.contains("an earlier ValkeyCluster poc"));
}

#[test]
fn an_object_being_deleted_is_waited_for() {
    let ours = json!([{ "kind": "ValkeyCluster", "name": "poc", "uid": "cluster-uid", "controller": true }]);
    let plan = decide_with_service(
        json!({ "uid": "x", "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": ours }),
    );
    assert!(!touches(&plan, &service()));
    assert_eq!(plan.report.waiting, ["Service poc is being deleted and will be made anew"]);
}

#[test]
fn nothing_is_decided_on_what_could_not_be_seen() {
    let mut observation = empty();
    observation.children.insert(service(), Observed::Unknown("timeout".into()));
    let plan = decide(json!({}), &observation);
    assert!(!touches(&plan, &service()));
    assert_eq!(plan.report.troubles[0].reason.as_str(), "ObservationFailed");
}

#[test]
fn only_our_own_unwanted_objects_are_deleted() {
    let mut observation = empty();
    let read = ChildKey::new(ChildKind::Service, "poc-read");
    let mut put = |uid: &str| {
        let owners = json!([{ "kind": "ValkeyCluster", "name": "poc", "uid": uid, "controller": true }]);
        observation
            .children
            .insert(read.clone(), Observed::Object(json!({ "metadata": { "uid": "r", "ownerReferences": owners } })));
        decide(json!({}), &observation)
    };
    assert!(put("cluster-uid").steps.contains(&Step::Delete { key: read.clone(), uid: "r".into() }));
    assert!(!touches(&put("other"), &read));
}

#[test]
fn a_network_policy_that_is_no_longer_wanted_goes_if_it_is_ours() {
    let policy = ChildKey::new(ChildKind::NetworkPolicy, "poc");
    let decided = |enabled: bool, owner: &str| {
        let owners = json!([{ "kind": "ValkeyCluster", "name": "poc", "uid": owner, "controller": true }]);
        let live = json!({ "metadata": { "uid": "n", "ownerReferences": owners } });
        let observation = Observation { children: [(policy.clone(), Observed::Object(live))].into(), ..empty() };
        decide(json!({ "networkPolicy": { "enabled": enabled } }), &observation)
    };
    let delete = Step::Delete { key: policy.clone(), uid: "n".into() };
    assert!(decided(false, "cluster-uid").steps.contains(&delete));
    assert!(!touches(&decided(false, "other"), &policy));
    let kept = decided(true, "cluster-uid");
    assert!(touches(&kept, &policy) && !kept.steps.contains(&delete));
}

#[test]
fn a_cluster_that_is_being_deleted_gets_nothing_back() {
    let mut observation = empty();
    observation.cluster.deleting = true;
    assert_eq!(decide(json!({}), &observation).steps, []);
}

#[test]
fn an_invalid_spec_is_told_and_nothing_is_touched() {
    let plan = decide(json!({ "masterCount": 2 }), &empty());
    assert_eq!(plan.steps, []);
    let status = status(&plan.report, &empty().cluster, None, now(1));
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(status.observed_generation, Some(4));
    let degraded = &status.conditions[2];
    assert_eq!((degraded.reason.as_str(), degraded.status.as_str()), ("InvalidSpec", "True"));
    assert!(degraded.message.contains("spec.masterCount"), "{}", degraded.message);
}

#[test]
fn a_habit_of_a_webhook_is_not_fought() {
    let mut observation = empty();
    let validated = validate(&cluster(json!({})), &settings(), &observation).unwrap();
    let mut live = child_manifests(&validated, &Shape::of_spec(&validated))[&service()].clone();
    live["metadata"]["uid"] = json!("x");
    live["metadata"]["labels"]["app.kubernetes.io/name"] = json!("renamed");
    observation.children.insert(service(), Observed::Object(live.clone()));
    assert!(touches(&decide(json!({}), &observation), &service()));
    let altered = planner::differences(&child_manifests(&validated, &Shape::of_spec(&validated))[&service()], &live);
    observation.altered_on_arrival.insert(service(), altered);
    let plan = decide(json!({}), &observation);
    assert!(!touches(&plan, &service()));
    assert!(plan.report.troubles[0].message.contains("admission webhook"));
}

fn patches(plan: &Plan) -> Vec<Value> {
    let patch = |step: &Step| match step {
        Step::PatchPod { metadata, .. } | Step::PatchClaim { metadata, .. } => Some(metadata.clone()),
        _ => None,
    };
    plan.steps.iter().filter_map(patch).collect()
}

/// Affinities that people write by hand select it; pods made by an earlier operator have none.
#[test]
fn a_living_pod_gets_the_label_app_and_keeps_the_one_of_the_spec() {
    let labels = |spec: Value| {
        let pod = PodFacts { name: "poc-0".into(), uid: "pod".into(), ..PodFacts::default() };
        let plan = decide(spec, &Observation { pods: vec![pod], ..empty() });
        patches(&plan)[0]["labels"]["app"].clone()
    };
    assert_eq!(labels(json!({})), "poc");
    assert_eq!(labels(json!({ "labels": { "app": "shop" } })), "shop");
}

#[test]
fn claims_of_every_age_are_marked_once_their_stateful_set_is_there() {
    let claim = |ordinal: usize, cluster: Option<&str>| ClaimFacts {
        name: format!("data-poc-{ordinal}"),
        uid: format!("claim-{ordinal}"),
        cluster: cluster.map(str::to_owned),
        ..ClaimFacts::default()
    };
    let claims = vec![claim(0, None), claim(1, Some("poc")), claim(2, Some("other"))];
    let mut observation = Observation { claims, ..with_stateful_set("2020-01-01T00:00:00Z", Value::Null) };
    let plan = decide(json!({}), &observation);
    let mark = json!({ "annotations": { "valkey.io/cr": "poc" } });
    assert_eq!(patches(&plan), [mark.clone(), mark.clone()]);
    let told: Vec<String> = plan.steps.iter().map(ToString::to_string).filter(|step| step.contains("mark")).collect();
    assert_eq!(told[0], "mark PersistentVolumeClaim data-poc-0 as this cluster's");
    for uid in ["claim-0", "claim-2"] {
        observation.patches_altered_on_arrival.insert(uid.to_owned(), mark.clone());
    }
    let plan = decide(json!({}), &observation);
    assert_eq!(patches(&plan), Vec::<Value>::new(), "a webhook takes it off each time");
    let message = &plan.report.troubles[0].message;
    assert!(message.contains("PersistentVolumeClaim data-poc-0 at annotation valkey.io/cr, and the like"), "{message}");
    observation.children.clear();
    assert_eq!(patches(&decide(json!({}), &observation)), Vec::<Value>::new());
}

#[test]
fn labels_that_a_webhook_takes_off_a_pod_are_not_put_on_for_ever() {
    let pod = PodFacts { name: "poc-0".into(), uid: "pod".into(), ..PodFacts::default() };
    let mut observation = Observation { pods: vec![pod], ..empty() };
    let wanted = patches(&decide(json!({}), &observation));
    assert_eq!(wanted.len(), 1);
    observation.patches_altered_on_arrival.insert("pod".into(), wanted[0].clone());
    let plan = decide(json!({}), &observation);
    assert_eq!(patches(&plan), Vec::<Value>::new());
    let told = |text: &str| plan.report.troubles.iter().any(|trouble| trouble.message.contains(text));
    assert!(told("pod poc-0 at label ") && told("exempt"), "{:?}", plan.report.troubles);
}

#[test]
fn a_status_is_equal_until_something_changes() {
    let plan = decide(json!({}), &empty());
    let first = status(&plan.report, &empty().cluster, None, now(10));
    let second = status(&plan.report, &empty().cluster, Some(&first), now(20));
    assert_eq!(first, second);
    let read_back: ValkeyClusterStatus = serde_json::from_value(serde_json::to_value(&first).unwrap()).unwrap();
    assert_eq!(read_back, first, "what the API server gives back is what was written");
    assert_eq!(first.conditions.len(), 13);
    assert_eq!((first.replicas, first.ready_pods.as_deref()), (6, Some("0/6")));
}

#[test]
fn a_paused_cluster_says_what_it_would_do() {
    let plan = decide(json!({ "paused": true }), &empty());
    let status = status(&plan.report, &empty().cluster, None, now(1));
    assert!(status.plan.unwrap().starts_with("paused; when resumed: create ServiceAccount poc-valkey; "));
    assert_eq!(status.conditions[1].reason, "Paused");
}

/// A pod whose Valkey is new, empty and alone.
fn fresh(ordinal: usize) -> PodObservation {
    let facts = NodeFacts::fresh(NodeId::new(format!("{ordinal:040x}")));
    PodObservation {
        ip: Some(format!("10.0.0.{ordinal}")),
        connected: true,
        valkey: Valkey::Answers(facts),
        ..PodObservation::unheard(format!("poc-{ordinal}").as_str().into(), format!("uid-{ordinal}").as_str().into())
    }
}

#[test]
fn a_paused_cluster_is_not_formed_and_nothing_is_told_as_begun() {
    let nodes = NodeObservation { pods: (0..6).map(fresh).collect(), ..NodeObservation::default() };
    let observation = Observation { nodes: Some(nodes), ..empty() };
    let begun = decide(json!({}), &observation);
    let watched = decide(json!({ "paused": true }), &observation);
    let told = |plan: &Plan| plan.report.nodes.clone().map(|nodes| (nodes.orchestration.is_some(), nodes.events.len()));
    assert!(begun.steps.iter().any(|step| step.command().is_some()) && told(&begun) == Some((true, 1)), "{begun:?}");
    let only_read = watched.steps.iter().filter_map(Step::command).all(|command| command.action.is_reading());
    assert!(only_read && told(&watched) == Some((false, 0)), "{watched:?}");
    let status = status(&watched.report, &observation.cluster, None, now(1));
    assert!(
        status.plan.is_some_and(|plan| plan.starts_with("paused; when resumed: ") && plan.contains("assigning slots"))
    );
}

/// Where pods go is decided once: it waits for the zones, and nobody waits for them in the middle of a pass.
#[test]
fn no_slots_are_given_away_before_the_zones_are_known() {
    let mut pods: Vec<PodObservation> = (0..6).map(fresh).collect();
    pods[5].zone_awaited = true;
    let nodes = NodeObservation { pods, ..NodeObservation::default() };
    let plan = decide(json!({}), &Observation { nodes: Some(nodes), ..empty() });
    assert!(plan.steps.iter().filter_map(Step::command).all(|command| command.action.is_reading()), "{plan:?}");
    let said = plan.report.nodes.unwrap().plan;
    assert!(said.iter().any(|text| text.contains("zones of the Kubernetes nodes")), "{said:?}");
}

#[test]
fn a_status_stays_small_whatever_goes_wrong() {
    let mut plan = decide(json!({}), &empty());
    for index in 0..10_000 {
        plan.report.trouble(api::conditions::Reason::PodFailing, format!("trouble {index}"));
        plan.report.waiting.push(format!("waiting {index}"));
    }
    let status = status(&plan.report, &empty().cluster, None, now(1));
    assert!(serde_json::to_string(&status).unwrap().len() < 10_000);
}

#[test]
fn a_volume_claim_of_somebody_else_becomes_no_pods_volume_before_a_human_said_so() {
    let stateful_set = ChildKey::new(ChildKind::StatefulSet, "poc");
    let with_volumes = json!({ "pvc": { "storageSize": "1Gi" } });
    let mut observation = Observation { foreign_claims: vec!["data-poc-0".into()], ..empty() };
    let plan = decide(with_volumes.clone(), &observation);
    assert!(!touches(&plan, &stateful_set));
    let trouble = &plan.report.troubles[0];
    assert_eq!(trouble.reason.as_str(), "NameTaken");
    let remedy = "kubectl label pvc data-poc-0 app.kubernetes.io/component=cluster app.kubernetes.io/instance=poc";
    assert!(trouble.message.contains(remedy), "{}", trouble.message);
    assert!(touches(&decide(json!({}), &observation), &stateful_set), "its pods have no claims");
    observation.foreign_claims = vec!["data-poc-99".into()];
    assert!(touches(&decide(with_volumes, &observation), &stateful_set), "no pod is called so");
}
