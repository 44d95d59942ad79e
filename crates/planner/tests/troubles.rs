//! What goes wrong with pods ends in one condition, one reason and one Event, however often the cluster is looked at.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use manifests::OperatorSettings;
use planner::{
    ChildKey, ChildKind, ClaimFacts, CreationFailure, Identity, Observation, Observed, PodFacts, notices, plan, status,
    validate,
};
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000;

fn observation(pods: Vec<Value>) -> Observation {
    let stateful_set = json!({ "metadata": { "name": "poc", "uid": "s", "generation": 1,
        "ownerReferences": [{ "uid": "cluster-uid", "controller": true }] },
        "spec": { "replicas": 3, "selector": {}, "serviceName": "poc-headless", "template": {} },
        "status": { "observedGeneration": 1, "replicas": 3 } });
    let pod = |value: Value| PodFacts::of(&serde_json::from_value::<Pod>(value).unwrap());
    Observation {
        cluster: Identity {
            name: "poc".into(),
            namespace: "test".into(),
            uid: "cluster-uid".into(),
            generation: Some(1),
            deleting: false,
        },
        children: [(ChildKey::new(ChildKind::StatefulSet, "poc"), Observed::Object(stateful_set))].into(),
        pods: pods.into_iter().map(pod).collect(),
        ..Observation::default()
    }
}

fn pod(ordinal: u32, status: Value) -> Value {
    json!({ "metadata": { "name": format!("poc-{ordinal}"), "uid": format!("p{ordinal}"), "creationTimestamp": "2027-01-15T07:59:00Z" }, "status": status })
}

fn container(name: &str, state: Value, last: Value) -> Value {
    json!({ "phase": "Pending", "containerStatuses": [
        { "name": name, "image": "valkey:9.9", "imageID": "", "ready": false, "restartCount": 3, "state": state, "lastState": last }] })
}

fn claim(storage_class: &str, created: &str) -> ClaimFacts {
    let claim = json!({ "metadata": { "name": "data-poc-0", "creationTimestamp": created }, "spec": { "storageClassName": storage_class }, "status": { "phase": "Pending" } });
    ClaimFacts::of(&serde_json::from_value::<PersistentVolumeClaim>(claim).unwrap())
}

fn cluster() -> ValkeyCluster {
    let metadata = json!({ "name": "poc", "namespace": "test", "uid": "cluster-uid", "generation": 1 });
    serde_json::from_value(json!({ "metadata": metadata, "spec": { "replicasPerMaster": 0 } })).unwrap()
}

fn status_of(observation: &Observation, previous: Option<&ValkeyClusterStatus>) -> ValkeyClusterStatus {
    let now = Timestamp::from_second(NOW).unwrap();
    let settings = OperatorSettings { sidecar_image: "sidecar:1".to_owned(), line: None };
    let validated = validate(&cluster(), &settings, observation);
    let mut plan = plan(validated.as_ref().map_err(Vec::as_slice), observation, now);
    plan.report.pending.clear();
    status(&plan.report, &observation.cluster, previous, now)
}

fn condition(status: &ValkeyClusterStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

fn degraded(observation: &Observation) -> (String, String, String) {
    condition(&status_of(observation, None), "Degraded")
}

#[track_caller]
fn assert_degraded(observation: &Observation, reason: &str, part: &str) {
    let (status, found, message) = degraded(observation);
    assert_eq!((status.as_str(), found.as_str()), ("True", reason), "{message}");
    assert!(message.contains(part), "{message}");
}

#[test]
fn every_known_trouble_has_its_reason_and_names_the_culprit() {
    let pull = json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image: ErrImagePull: not found" } });
    assert_degraded(
        &observation(vec![pod(0, container("valkey", pull, json!({})))]),
        "ImagePullFailed",
        "image valkey:9.9 of container valkey in pod poc-0 cannot be pulled: not found",
    );
    let crash = json!({ "terminated": { "exitCode": 1, "reason": "Error" } });
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    assert_degraded(
        &observation(vec![pod(1, container("valkey", waiting.clone(), crash.clone()))]),
        "ValkeyCrashLooping",
        "poc-1",
    );
    assert_degraded(
        &observation(vec![pod(1, container("sidecar", waiting.clone(), crash.clone()))]),
        "SidecarCrashLooping",
        "exit code 1",
    );
    assert_degraded(&observation(vec![pod(1, container("exporter", waiting, crash))]), "PodFailing", "exporter");
    let missing = json!({ "waiting": { "reason": "CreateContainerConfigError", "message": "secret \"x\" not found" } });
    assert_degraded(
        &observation(vec![pod(0, container("valkey", missing, json!({})))]),
        "PodFailing",
        "secret \"x\" not found",
    );
    let unschedulable = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes" }] });
    assert_degraded(
        &observation(vec![pod(2, unschedulable)]),
        "PodUnschedulable",
        "poc-2 cannot be scheduled: 0/3 nodes",
    );
}

/// Pods of clusters with modules show the end of their log; nothing else of it is repeated.
#[test]
fn a_module_that_cannot_be_loaded_is_named_with_the_reason() {
    let ended = |message: &str| {
        let crash = json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": message } });
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        observation(vec![pod(1, container("valkey", waiting, crash))])
    };
    let log = "1:M * secret stuff\n1:M # Module /m/x.so failed to load: /m/x.so: no such file\n\
        1:M # Can't load module from /m/x.so: server aborting\n";
    assert_degraded(
        &ended(log),
        "ValkeyCrashLooping",
        "exit code 1 (Error): module /m/x.so failed to load: /m/x.so: no such file: correct spec.modules",
    );
    assert!(!degraded(&ended(log)).2.contains("secret"));
    assert!(degraded(&ended("1:M # some other end\n")).2.ends_with("exit code 1 (Error)"));
}

#[test]
fn a_container_between_two_crashes_is_still_crashing() {
    let crash = |at: &str| json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled", "finishedAt": at } });
    let running = |at| observation(vec![pod(0, container("valkey", json!({ "running": {} }), crash(at)))]);
    let (recent, long_ago) = ("2027-01-15T07:59:00Z", "2027-01-14T07:59:00Z");
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let waiting = observation(vec![pod(0, container("valkey", waiting, crash(recent)))]);
    assert_eq!(degraded(&running(recent)), degraded(&waiting));
    assert_degraded(&running(recent), "ValkeyCrashLooping", "OOMKilled");
    assert_eq!(degraded(&running(long_ago)).0, "False", "it is not ready for another reason");
}

#[test]
fn one_crash_is_no_loop() {
    let crash = json!({ "terminated": { "exitCode": 137, "finishedAt": "2027-01-15T07:59:59Z" } });
    let mut seen = observation(vec![pod(0, container("valkey", json!({ "running": {} }), crash))]);
    seen.pods[0].containers[0].restarts = 1;
    assert_eq!(degraded(&seen).0, "False");
    assert_eq!(condition(&status_of(&seen, None), "Ready").0, "False");
}

/// How it ended, after so many restarts and a run that lasted so long; `running` again or backed off.
fn ended_after(restarts: i32, began: &str, waits: bool) -> Observation {
    let last = json!({ "terminated": { "exitCode": 1, "startedAt": began, "finishedAt": "2027-01-15T07:59:59Z" } });
    let state = if waits {
        json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 10s" } })
    } else {
        json!({ "running": {} })
    };
    let mut seen = observation(vec![pod(0, container("valkey", state, last))]);
    seen.pods[0].containers[0].restarts = restarts;
    seen
}

#[test]
fn a_container_that_was_restarted_once_or_twice_is_in_no_loop() {
    let short = "2027-01-15T07:59:50Z";
    for (restarts, waits) in [(1, true), (1, false), (2, false)] {
        assert_eq!(degraded(&ended_after(restarts, short, waits)).0, "False", "{restarts} {waits}");
    }
    assert_degraded(&ended_after(2, short, true), "ValkeyCrashLooping", "exit code 1");
    assert_degraded(&ended_after(3, short, false), "ValkeyCrashLooping", "exit code 1");
}

#[test]
fn restarts_of_long_ago_make_no_loop_of_one_end() {
    assert_eq!(degraded(&ended_after(9, "2027-01-14T07:59:50Z", false)).0, "False", "it ran for a day before");
}

#[test]
fn the_two_ways_in_which_the_kubelet_tells_of_a_pull_are_one() {
    let tell = |reason: &str, message: &str| {
        let state = json!({ "waiting": { "reason": reason, "message": message } });
        degraded(&observation(vec![pod(0, container("valkey", state, json!({})))]))
    };
    let first = tell("ErrImagePull", "lookup x: read udp 10.0.0.1:5123->10.0.0.2:53: i/o timeout");
    let second = tell(
        "ImagePullBackOff",
        "Back-off pulling image \"x\": ErrImagePull: lookup x: read udp 10.0.0.1:9999->10.0.0.2:53: i/o timeout",
    );
    assert_eq!(first, second);
}

#[test]
fn a_missing_storage_class_is_told_instead_of_its_consequence() {
    let unschedulable = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "message": "unbound PersistentVolumeClaims" }] });
    let mut seen = observation(vec![pod(0, unschedulable)]);
    seen.claims = vec![claim("nope", "2027-01-15T07:59:59Z")];
    assert_eq!(degraded(&seen).0, "False", "a second old: the cause is not told yet");
    seen.claims[0].failure = Some("storageclass.storage.k8s.io \"nope\" not found".into());
    assert_degraded(&seen, "StorageClassMissing", "data-poc-0 of pod poc-0 gets no volume");
    seen.claims = vec![claim("slow", "2027-01-15T07:59:00Z")];
    assert_degraded(&seen, "PodUnschedulable", "unbound");
    seen.pods[0].unschedulable = None;
    assert_degraded(&seen, "VolumePending", "StorageClass: slow");
}

#[test]
fn an_exhausted_quota_is_told_until_a_pod_is_made_after_it() {
    let mut seen = observation(vec![pod(0, json!({ "phase": "Running" }))]);
    let failure = |at| Some(CreationFailure { message: "create Pod poc-1 failed: exceeded quota: q".into(), at });
    seen.creation_failure = failure(seen.pods[0].created + 1);
    assert_degraded(&seen, "QuotaExceeded", "exceeded quota: q");
    seen.creation_failure = failure(seen.pods[0].created - 1);
    assert_eq!(degraded(&seen).0, "False");
}

#[test]
fn pods_with_the_same_trouble_are_counted_and_not_listed() {
    let pull = json!({ "waiting": { "reason": "ErrImagePull", "message": "no" } });
    let seen = observation((0..3).map(|ordinal| pod(ordinal, container("valkey", pull.clone(), json!({})))).collect());
    assert_degraded(&seen, "ImagePullFailed", "poc-0 cannot be pulled: no (and 2 more)");
}

#[test]
fn a_lasting_trouble_is_one_event_and_its_end_another() {
    let pull = json!({ "waiting": { "reason": "ErrImagePull", "message": "no" } });
    let bad = observation(vec![pod(0, container("valkey", pull, json!({})))]);
    let worse = observation(vec![bad_pod("ErrImagePull", "no", 0), bad_pod("ErrImagePull", "no", 1)]);
    let first = status_of(&bad, None);
    let second = status_of(&worse, Some(&first));
    let healed = status_of(&observation(vec![pod(0, json!({ "phase": "Running" }))]), Some(&second));
    let begin = notices(&[], &first.conditions);
    assert_eq!(
        begin.iter().map(|notice| (notice.warning, notice.reason.as_str())).collect::<Vec<_>>(),
        [(true, "ImagePullFailed")]
    );
    assert_eq!(notices(&first.conditions, &second.conditions), []);
    let end = notices(&second.conditions, &healed.conditions);
    assert_eq!(
        end.iter().map(|notice| (notice.warning, notice.reason.as_str())).collect::<Vec<_>>(),
        [(false, "AsExpected")]
    );
    assert_eq!(notices(&[], &first.conditions), begin, "told again after a crash, it has the same name");
}

fn bad_pod(reason: &str, message: &str, ordinal: u32) -> Value {
    pod(ordinal, container("valkey", json!({ "waiting": { "reason": reason, "message": message } }), json!({})))
}

fn pending(message: &str, since: &str) -> Value {
    json!({ "phase": "Pending", "conditions": [
        { "type": "PodScheduled", "status": "False", "message": message, "lastTransitionTime": since }] })
}

const RACE: &str = "running PreBind plugin: Operation cannot be fulfilled on persistentvolumeclaims \"data-poc-0\": the object has been \
                    modified; please apply your changes to the latest version and try again";

#[test]
fn a_pod_that_the_scheduler_tries_again_in_a_moment_is_in_no_trouble() {
    let of = |message: &str, since: &str| degraded(&observation(vec![pod(0, pending(message, since))]));
    assert_eq!(of("0/3 nodes", "2027-01-15T07:59:59Z").0, "False");
    assert_eq!(of("0/3 nodes", "2027-01-15T07:59:56Z").1, "PodUnschedulable");
    assert_eq!(of(RACE, "2027-01-15T07:59:45Z").0, "False", "it came too late with a write and tries again");
    assert_eq!(of(RACE, "2027-01-15T07:59:00Z").1, "PodUnschedulable", "by now somebody should look");
}

#[test]
fn a_volume_that_takes_its_time_is_no_trouble_and_one_that_cannot_come_is() {
    let of = |created: &str, failure: Option<&str>| {
        let mut seen = observation(vec![pod(0, json!({ "phase": "Pending" }))]);
        seen.claims = vec![ClaimFacts { failure: failure.map(str::to_owned), ..claim("slow", created) }];
        degraded(&seen)
    };
    let (young, old) = ("2027-01-15T07:59:50Z", "2027-01-15T07:59:00Z");
    assert_eq!(of(young, None).0, "False", "ten seconds are nothing");
    assert_eq!(of(young, Some(RACE)).0, "False");
    assert_eq!(of(young, Some("no space left")).1, "VolumePending");
    assert_eq!((of(old, None).1.as_str(), of(old, Some(RACE)).1.as_str()), ("VolumePending", "VolumePending"));
}

/// With the inputs of the template that the StatefulSet has now, and those of the pod.
fn behind(pods: &str, template: &str) -> Observation {
    let crash = json!({ "terminated": { "exitCode": 1, "reason": "Error" } });
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let mut seen = observation(vec![pod(1, container("valkey", waiting, crash))]);
    let key = ChildKey::new(ChildKind::StatefulSet, "poc");
    if let Some(Observed::Object(set)) = seen.children.get_mut(&key) {
        set["spec"]["template"] = json!({ "metadata": { "annotations": { "valkey.io/restart-inputs": template } } });
    }
    seen.pods[0].annotations.insert("valkey.io/restart-inputs".to_owned(), pods.to_owned());
    seen
}

#[test]
fn a_pod_that_a_corrected_spec_cannot_help_is_to_be_deleted_unless_its_data_would_go_with_it() {
    let (with, without) = (r#"{"modules":"a"}"#, "{}");
    let mut seen = behind(with, without);
    let told = degraded(&seen).2;
    assert!(
        told.ends_with("; the pod was made before a change of modules: kubectl delete pod poc-1 makes it anew"),
        "{told}"
    );
    assert!(degraded(&behind(with, with)).2.ends_with("exit code 1 (Error)"), "it is as the spec has it");
    seen.pods[0].labels.insert("valkey.io/role".to_owned(), "primary".to_owned());
    let told = degraded(&seen).2;
    assert!(told.ends_with("its data is on no volume and ends with it") && !told.contains("kubectl"), "{told}");
    let metadata = json!({ "metadata": { "name": "data-poc-1" }, "status": { "phase": "Bound" } });
    seen.claims = vec![ClaimFacts::of(&serde_json::from_value(metadata).unwrap())];
    assert!(degraded(&seen).2.contains("kubectl delete pod poc-1"), "its volume stays");
}

#[test]
fn a_crash_of_a_pod_without_ids_names_the_field_that_leaves_them_to_the_platform() {
    let crash = json!({ "terminated": { "exitCode": 1, "reason": "Error" } });
    let of = |context: Value| {
        let mut value =
            pod(0, container("valkey", json!({ "waiting": { "reason": "CrashLoopBackOff" } }), crash.clone()));
        value["spec"] = json!({ "containers": [], "securityContext": context });
        degraded(&observation(vec![value])).2
    };
    let told = of(json!({ "runAsNonRoot": true }));
    assert!(
        told.contains("exit code 1 (Error); spec.securityContext is empty, and the platform gave the pod no fsGroup"),
        "{told}"
    );
    assert!(told.ends_with(
        "take spec.securityContext out or write ids into it, which is possible until the cluster is formed"
    ));
    assert!(of(json!({ "fsGroup": 1_000_650_000 })).ends_with("exit code 1 (Error)"));
}

/// What an empty context meant before it meant the platform's choice is known of a cluster also while its StatefulSet is away.
#[test]
fn a_formed_cluster_without_a_stateful_set_keeps_its_ids() {
    let ids = |status: Value| {
        let mut cluster = cluster();
        cluster.spec.security_context = Some(Default::default());
        cluster.status = Some(serde_json::from_value(status).unwrap());
        let settings = OperatorSettings { sidecar_image: "sidecar:1".to_owned(), line: None };
        let seen = Observation { children: [].into(), ..observation(Vec::new()) };
        validate(&cluster, &settings, &seen).unwrap().spec.security_context.fs_group
    };
    let shards = json!([{ "id": "shard-0", "slots": "0-5461", "nodes": [] }]);
    assert_eq!(ids(json!({ "shards": shards })), Some(999));
    assert_eq!(ids(json!({ "shards": shards, "platformIds": true })), None);
    assert_eq!(ids(json!({})), None, "it was never formed");
}

/// Its containers run as different users, and no container says what is wrong.
#[test]
fn a_pod_without_ids_that_does_not_become_ready_is_named_until_it_served_once() {
    let of = |created: &str, labels: Value, context: Value| {
        let mut value = pod(0, json!({ "phase": "Running" }));
        value["metadata"]["creationTimestamp"] = json!(created);
        value["metadata"]["labels"] = labels;
        value["spec"] = json!({ "containers": [], "securityContext": context });
        degraded(&observation(vec![value]))
    };
    let (young, old) = ("2027-01-15T07:59:30Z", "2027-01-15T07:58:00Z");
    let (status, reason, told) = of(old, json!({}), json!({}));
    assert_eq!((status.as_str(), reason.as_str()), ("True", "PodFailing"));
    assert!(told.starts_with("pod poc-0 does not become ready; spec.securityContext is empty"), "{told}");
    assert_eq!(of(young, json!({}), json!({})).0, "False");
    assert_eq!(of(old, json!({}), json!({ "fsGroup": 999 })).0, "False");
    assert_eq!(
        of(old, json!({ "valkey.io/role": "replica" }), json!({})).0,
        "False",
        "it can work, and loads its data"
    );
}
