//! Sidecars older than the operator: named with the way out, and replaced only when somebody asks and a pod is made anyway.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use k8s_openapi::jiff::Timestamp;
use manifests::OperatorSettings;
use planner::{
    ChildKey, ChildKind, Identity, LineFacts, Observation, Observed, Plan, PodFacts, Shape, SidecarState, Step,
    child_manifests, plan, status, validate,
};
use serde_json::{Value, json};

const OLD: &str = "ghcr.io/valkey-operator/sidecar:v0.0.9";
const NEW: &str = "ghcr.io/valkey-operator/sidecar:v0.1.0";
const REQUEST: &str = "valkey.io/update-sidecars";

fn cluster(request: Option<&str>, spec: Value) -> ValkeyCluster {
    let metadata = json!({ "name": "poc", "namespace": "test", "uid": "u", "generation": 1,
        "annotations": request.map(|id| json!({ REQUEST: id })) });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

fn settings(sidecar: &str) -> OperatorSettings {
    OperatorSettings { sidecar_image: sidecar.to_owned(), line: None }
}

/// Made by an operator with that sidecar, and running.
fn made(sidecar: &str, request: Option<&str>) -> Observation {
    let identity = Identity {
        name: "poc".into(),
        namespace: "test".into(),
        uid: "u".into(),
        generation: Some(1),
        deleting: false,
    };
    let empty = Observation { cluster: identity, ..Observation::default() };
    let validated = validate(&cluster(request, json!({})), &settings(sidecar), &empty).unwrap();
    let mut children = child_manifests(&validated, &Shape::of_spec(&validated));
    children.values_mut().for_each(|child| child["metadata"]["uid"] = json!("x"));
    let template = &children[&set()]["spec"]["template"];
    let pod = |ordinal: usize| PodFacts {
        name: format!("poc-{ordinal}"),
        uid: format!("uid-{ordinal}"),
        annotations: serde_json::from_value(template["metadata"]["annotations"].clone()).unwrap(),
        sidecar_image: Some(sidecar.to_owned()),
        running: true,
        ready: true,
        ..PodFacts::default()
    };
    let pods = (0..6).map(pod).collect();
    let children = children.into_iter().map(|(key, child)| (key, Observed::Object(child))).collect();
    Observation { children, pods, ..empty }
}

fn set() -> ChildKey {
    ChildKey::new(ChildKind::StatefulSet, "poc")
}

fn decided(cluster: &ValkeyCluster, observation: &Observation) -> Plan {
    let validated = validate(cluster, &settings(NEW), observation);
    plan(validated.as_ref().map_err(Vec::as_slice), observation, Timestamp::from_second(1_000).unwrap())
}

/// The StatefulSet as it is to be, if it is to change.
fn applied(plan: &Plan) -> Option<&Value> {
    plan.steps.iter().find_map(|step| match step {
        Step::Apply(apply) if apply.key == set() => Some(&apply.manifest),
        _ => None,
    })
}

fn sidecar_of(manifest: &Value) -> &str {
    manifest["spec"]["template"]["spec"]["initContainers"][0]["image"].as_str().unwrap()
}

fn told(plan: &Plan, observation: &Observation, previous: Option<&ValkeyClusterStatus>) -> ValkeyClusterStatus {
    status(&plan.report, &observation.cluster, previous, Timestamp::from_second(1_000).unwrap())
}

fn said<'a>(status: &'a ValkeyClusterStatus, condition: &str) -> (&'a str, &'a str, &'a str) {
    let found = status.conditions.iter().find(|it| it.type_ == condition).unwrap();
    (&found.status, &found.reason, &found.message)
}

#[test]
fn an_upgraded_operator_names_older_sidecars_and_the_way_and_changes_nothing() {
    let observation = made(OLD, None);
    let plan = decided(&cluster(None, json!({})), &observation);
    assert_eq!(applied(&plan), None);
    let status = told(&plan, &observation, None);
    let (value, reason, message) = said(&status, "SidecarsUpToDate");
    assert_eq!((value, reason), ("False", "SidecarsOutdated"));
    assert!(
        message.contains("poc-0") && message.contains("kubectl annotate valkeycluster poc --overwrite"),
        "{message}"
    );
    assert_eq!(said(&status, "RestartRequired").0, "False", "nothing waits before somebody asks");
}

#[test]
fn a_request_is_followed_once_and_ends_no_pod() {
    let mut observation = made(OLD, None);
    let asked = cluster(Some("v0.1.0"), json!({}));
    let plan = decided(&asked, &observation);
    let manifest = applied(&plan).unwrap().clone();
    assert_eq!(sidecar_of(&manifest), NEW);
    assert_eq!(told(&plan, &observation, None).sidecar_update, None, "not yet");
    let revision =
        |set: &Value| set["spec"]["template"]["metadata"]["annotations"]["valkey.io/restart-revision"].clone();
    let Observed::Object(before) = &observation.children[&set()] else { panic!("it is there") };
    assert_eq!(revision(before), revision(&manifest));
    assert!(
        plan.steps.iter().all(|step| !matches!(step, Step::Delete { .. } | Step::Release { .. })),
        "{:?}",
        plan.steps
    );

    observation.children.insert(set(), Observed::Object(manifest));
    let plan = decided(&asked, &observation);
    assert_eq!(applied(&plan), None, "it is as asked");
    let status = told(&plan, &observation, None);
    assert_eq!(status.sidecar_update.as_deref(), Some("v0.1.0"));
    let (value, reason, message) = said(&status, "RestartRequired");
    assert!(value == "True" && reason == "RestartPending" && message.ends_with(": sidecarImage"), "{message}");
    assert_eq!(said(&status, "Reconciling").0, "True");
    let message = said(&status, "SidecarsUpToDate").2;
    assert!(message.contains("delete these pods one at a time") && !message.contains("annotate"), "{message}");

    observation.pods.iter_mut().for_each(|pod| pod.sidecar_image = Some(NEW.to_owned()));
    let status = told(&decided(&asked, &observation), &observation, Some(&status));
    assert_eq!((said(&status, "SidecarsUpToDate").1, said(&status, "RestartRequired").0), ("SidecarsCurrent", "False"));
}

#[test]
fn a_request_that_is_left_lying_means_nothing_to_a_later_operator() {
    let observation = made(OLD, Some("v0.0.9"));
    for leftover in [None, Some("v0.0.9"), Some("v0.2.0"), Some("")] {
        let plan = decided(&cluster(leftover, json!({})), &observation);
        assert_eq!(applied(&plan), None, "{leftover:?}");
        let followed = leftover.filter(|build| *build == "v0.0.9");
        assert_eq!(told(&plan, &observation, None).sidecar_update.as_deref(), followed);
    }
    let again = decided(&cluster(Some("v0.1.0"), json!({})), &observation);
    assert_eq!(applied(&again).map(sidecar_of), Some(NEW));
}

#[test]
fn what_was_known_stands_while_the_spec_cannot_be_read() {
    let observation = made(OLD, Some("v0.0.9"));
    let before = told(&decided(&cluster(Some("v0.0.9"), json!({})), &observation), &observation, None);
    let plan = decided(&cluster(None, json!({ "masterCount": 2 })), &observation);
    let status = told(&plan, &observation, Some(&before));
    assert_eq!(said(&status, "SidecarsUpToDate"), said(&before, "SidecarsUpToDate"));
    assert_eq!(status.sidecar_update.as_deref(), Some("v0.0.9"));
}

/// Behind a mirror the image has another name, and with `spec.sidecarImage` any.
#[test]
fn a_sidecars_own_word_tells_its_age_first() {
    let own = json!({ "sidecarImage": { "name": "registry.example/sidecar", "tag": "ours" } });
    let cases = [
        (json!({}), "mirror.example/sidecar:v0.1.0", "0.1.0", "True"),
        (json!({}), NEW, "0.0.9", "False"),
        (json!({}), "ghcr.io/valkey-operator/sidecar:v99.0.0", "99.0.0", "True"),
        (json!({}), "ghcr.io/valkey-operator/sidecar:v0.1.0-rebuilt", "0.1.0", "False"),
        (own.clone(), "registry.example/sidecar:ours", "0.1.0", "True"),
        (own, "registry.example/sidecar:ours", "0.0.9", "False"),
    ];
    for (spec, image, version, expected) in cases {
        let mut observation = made(image, None);
        let sidecar = |pod: &PodFacts| SidecarState {
            pod_uid: pod.uid.clone(),
            connected: true,
            version: version.to_owned(),
            ..SidecarState::default()
        };
        observation.line =
            LineFacts { sidecars: observation.pods.iter().map(sidecar).collect(), ..LineFacts::default() };
        let status = told(&decided(&cluster(None, spec), &observation), &observation, None);
        assert_eq!(said(&status, "SidecarsUpToDate").0, expected, "{image} {version}");
    }
}
