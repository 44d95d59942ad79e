//! What is said of the sidecars: who is connected, what changes the status and what does not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use k8s_openapi::jiff::Timestamp;
use manifests::{OperatorSettings, ValidatedCluster};
use planner::{Identity, LineFacts, Observation, PodFacts, Report, SidecarState, plan, status, validate};
use serde_json::{Value, json};

const LONG_AGO: i64 = 1_000;
const NOW: i64 = 10_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(ordinal: usize, created: i64) -> PodFacts {
    let (name, uid) = (format!("poc-{ordinal}"), format!("uid-{ordinal}"));
    PodFacts { name, uid, running: true, ready: true, created, ..PodFacts::default() }
}

fn sidecar(ordinal: usize, connected: bool, heartbeat: i64) -> SidecarState {
    SidecarState {
        pod_uid: format!("uid-{ordinal}"),
        connected,
        lost: None,
        last_heartbeat: Some(at(heartbeat)),
        version: "0.1.0".into(),
        certificate_expires: Some(at(20_000)),
        ..SidecarState::default()
    }
}

fn identity() -> Identity {
    let text = |text: &str| text.to_owned();
    Identity { name: text("poc"), namespace: text("test"), uid: text("u"), generation: Some(1), deleting: false }
}

fn observed(pods: usize, sidecars: Vec<SidecarState>) -> Observation {
    let pods = (0..pods).map(|ordinal| pod(ordinal, LONG_AGO)).collect();
    let line = LineFacts { sidecars, ..LineFacts::default() };
    Observation { cluster: identity(), pods, line, ..Observation::default() }
}

fn validated(spec: &Value, observation: &Observation) -> ValidatedCluster {
    let metadata = json!({ "name": "poc", "namespace": "test", "uid": "u", "generation": 1 });
    let cluster: ValkeyCluster = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
    let settings = OperatorSettings { sidecar_image: "sidecar:1".to_owned(), line: None };
    validate(&cluster, &settings, observation).unwrap()
}

/// The report about a cluster that asks for six pods, or for `masters` times two.
fn report_of(observation: &Observation, masters: usize) -> Report {
    plan(Ok(&validated(&json!({ "masterCount": masters }), observation)), observation, at(NOW)).report
}

fn published(observation: &Observation, previous: Option<&ValkeyClusterStatus>) -> ValkeyClusterStatus {
    status(&report_of(observation, 3), &identity(), previous, at(NOW))
}

/// Status, reason and message of the condition.
fn said(status: &ValkeyClusterStatus) -> (String, String, String) {
    let condition = status.conditions.iter().find(|condition| condition.type_ == "SidecarsConnected").unwrap().clone();
    (condition.status, condition.reason, condition.message)
}

fn all(heartbeat: i64) -> Vec<SidecarState> {
    (0..6).map(|ordinal| sidecar(ordinal, true, heartbeat)).collect()
}

#[test]
fn all_sidecars_connected_is_true_and_each_pod_is_shown() {
    let status = published(&observed(6, all(9_000)), None);
    let (value, reason, message) = said(&status);
    assert_eq!((value.as_str(), reason.as_str()), ("True", "AllSidecarsConnected"), "{message}");
    assert_eq!(status.sidecars.as_deref(), Some("6/6"));
    let first = serde_json::to_value(&status.pods[0]).unwrap();
    assert_eq!(
        first,
        json!({ "name": "poc-0", "connected": true, "lastHeartbeat": "1970-01-01T02:30:00Z", "sidecarVersion": "0.1.0",
            "certificateExpires": "1970-01-01T05:33:20Z" })
    );
}

#[test]
fn a_sidecar_that_is_gone_is_named_and_listed_first() {
    let mut sidecars = all(9_000);
    sidecars[4].connected = false;
    let status = published(&observed(6, sidecars), None);
    let (value, reason, message) = said(&status);
    assert_eq!((value.as_str(), reason.as_str()), ("False", "SidecarsDisconnected"));
    assert_eq!(message, "5 of 6 sidecars are connected; not those of poc-4");
    assert_eq!((status.pods[0].name.as_str(), status.pods[0].connected), ("poc-4", false));
    assert_eq!(status.sidecars.as_deref(), Some("5/6"));
}

#[test]
fn a_sidecar_whose_token_is_refused_is_named_with_the_reason_and_the_remedy() {
    let mut sidecars = all(9_000);
    sidecars.truncate(3);
    let mut observation = observed(6, sidecars);
    let why = "service account UID (b) does not match claim (a)";
    // One that is connected may have shown an old token on another connection.
    for ordinal in [0, 3, 4] {
        observation.line.turned_away.insert(format!("uid-{ordinal}"), why.to_owned());
    }
    observation.line.turned_away.insert("uid-5".to_owned(), "it has expired".to_owned());
    let (value, reason, message) = said(&published(&observation, None));
    assert_eq!((value.as_str(), reason.as_str()), ("False", "SidecarTokensRefused"));
    assert_eq!(
        message,
        "3 of 6 sidecars are connected; not those of poc-3, poc-4, poc-5. The API server or the operator refuses the tokens of \
         poc-5 (it has expired); poc-3, poc-4 (service account UID (b) does not match claim (a)). If their ServiceAccount was \
         made anew, wait for the tokens that the kubelet brings within the hour, or replace these pods one at a time"
    );
}

#[test]
fn a_token_that_was_refused_before_the_pod_was_heard_is_no_word_worth() {
    let mut observation = observed(6, all(9_000));
    observation.line.turned_away.insert("uid-0".to_owned(), "it has expired".to_owned());
    assert_eq!(said(&published(&observation, None)).1, "AllSidecarsConnected");
}

#[test]
fn a_young_or_missing_pod_is_waited_for() {
    let mut observation = observed(5, all(9_000));
    observation.line.sidecars.truncate(4);
    observation.pods[4].created = NOW - 1;
    let (value, reason, message) = said(&published(&observation, None));
    assert_eq!((value.as_str(), reason.as_str()), ("False", "SidecarsConnecting"));
    assert_eq!(message, "4 of 6 sidecars are connected");
}

#[test]
fn a_sidecar_that_was_heard_is_missed_even_if_its_node_never_said_that_the_pod_runs() {
    let mut sidecars = all(9_000);
    sidecars[2].connected = false;
    let mut observation = observed(6, sidecars);
    observation.pods[2].running = false;
    let (value, reason, _) = said(&published(&observation, None));
    assert_eq!((value.as_str(), reason.as_str()), ("False", "SidecarsDisconnected"));
    observation.line.sidecars.remove(2);
    assert_eq!(said(&published(&observation, None)).1, "SidecarsConnecting", "it was never heard and may be starting");
}

#[test]
fn a_heartbeat_alone_changes_nothing_in_the_status() {
    let before = published(&observed(6, all(9_000)), None);
    assert_eq!(published(&observed(6, all(9_500)), Some(&before)), before);
}

#[test]
fn the_last_heartbeat_is_written_with_the_next_change_and_when_the_connection_is_lost() {
    let before = published(&observed(6, all(9_000)), None);
    let mut sidecars = all(9_500);
    sidecars[0] = sidecar(0, false, 9_100);
    let after = published(&observed(6, sidecars), Some(&before));
    let heartbeat = |index: usize| after.pods[index].last_heartbeat.as_ref().unwrap().0;
    assert_eq!((heartbeat(0), heartbeat(1)), (at(9_100), at(9_500)));
}

#[test]
fn after_a_change_of_leader_what_was_said_stands_until_it_is_known_better() {
    let before = published(&observed(6, all(9_000)), None);
    let mut observation = observed(6, Vec::new());
    observation.line.returning = true;
    assert_eq!(published(&observation, Some(&before)), before);
    observation.line.sidecars = vec![sidecar(2, true, 9_900)];
    assert_eq!(published(&observation, Some(&before)), before, "one came back, the others are on their way");
    observation.line.returning = false;
    assert_eq!(published(&observation, Some(&before)).sidecars.as_deref(), Some("1/6"));
}

#[test]
fn a_connection_that_is_back_in_a_moment_is_not_worth_a_word() {
    let before = published(&observed(6, all(9_000)), None);
    let mut observation = observed(6, all(9_000));
    let gone = &mut observation.line.sidecars[2];
    (gone.connected, gone.lost) = (false, Some(at(NOW - 2)));
    assert_eq!(published(&observation, Some(&before)), before);
    assert!(report_of(&observation, 3).sidecars[2].is_awaited(), "somebody has to look again");
    observation.line.sidecars[2].lost = Some(at(NOW - 6));
    assert_eq!(published(&observation, Some(&before)).sidecars.as_deref(), Some("5/6"));
}

#[test]
fn the_list_of_pods_is_bounded_and_the_summary_counts_all() {
    let mut sidecars: Vec<_> = (0..300).map(|ordinal| sidecar(ordinal, true, 9_000)).collect();
    sidecars[250].connected = false;
    let observation = observed(300, sidecars);
    let large = status(&report_of(&observation, 150), &identity(), None, at(NOW));
    assert_eq!((large.pods.len(), large.sidecars.as_deref()), (100, Some("299/300")));
    assert_eq!(large.pods[0].name, "poc-250");
    let mut unknown = observed(300, Vec::new());
    unknown.line.returning = true;
    let again = status(&report_of(&unknown, 150), &identity(), Some(&large), at(NOW));
    assert_eq!(again.sidecars.as_deref(), Some("299/300"), "those not listed were connected");
}

#[test]
fn a_refused_setting_is_a_trouble_that_names_it_once() {
    let mut observation = observed(6, all(9_000));
    for sidecar in &mut observation.line.sidecars {
        sidecar.refused = vec!["maxmemory-policy: Valkey refused the value".into()];
    }
    let report = report_of(&observation, 3);
    let told: Vec<_> =
        report.troubles.iter().map(|trouble| (trouble.reason.as_str(), trouble.message.as_str())).collect();
    assert_eq!(told, [("SettingRefused", "settings were refused: maxmemory-policy: Valkey refused the value")]);
}

fn with_modules(modules: &[(usize, &[(&str, i64)])]) -> Observation {
    let mut sidecars = all(9_000);
    for (ordinal, loaded) in modules {
        sidecars[*ordinal].modules =
            Some(loaded.iter().map(|(name, version)| ((*name).to_owned(), *version)).collect());
    }
    observed(6, sidecars)
}

#[test]
fn the_modules_of_all_nodes_are_listed_and_stay_while_nobody_can_tell() {
    let observation = with_modules(&[(0, &[("json", 10_002), ("bf", 1)]), (1, &[("json", 10_001)]), (2, &[])]);
    let status = published(&observation, None);
    let listed = serde_json::to_value(&status.modules).unwrap();
    assert_eq!(
        listed,
        json!([{ "name": "bf", "version": 1, "pods": 1 }, { "name": "json", "version": 10_002, "pods": 2 }])
    );
    let silent = published(&observed(6, all(9_000)), Some(&status));
    assert_eq!(silent.modules, status.modules);
    let unloaded = published(&with_modules(&[(0, &[]), (1, &[])]), Some(&status));
    assert_eq!(unloaded.modules, []);
}

#[test]
fn a_node_without_the_modules_its_pod_was_made_with_is_named() {
    let spec = json!({ "modules": [{ "path": "/m/a.so" }] });
    let said = |loaded: &[(&str, i64)], annotated: bool, knows: bool| {
        let mut observation = with_modules(&[(0, loaded)]);
        observation.line.sidecars[0].knows_modules = knows;
        let made_with = validated(&spec, &observation).restart_inputs;
        if annotated {
            observation.pods[0].annotations = manifests::restart::annotations(&made_with).into();
        }
        let report = plan(Ok(&validated(&spec, &observation)), &observation, at(NOW)).report;
        report.troubles.into_iter().map(|trouble| trouble.message).find(|message| message.contains("spec.modules"))
    };
    let old = said(&[], true, false);
    assert!(old.is_some_and(|message| message.contains("pod poc-0") && message.contains("sidecarImage")));
    let unloaded = said(&[], true, true);
    assert!(
        unloaded
            .is_some_and(|message| message.ends_with("somebody unloaded it; it is loaded again when the pod restarts"))
    );
    assert_eq!(said(&[("a", 1)], true, true), None);
    assert_eq!(said(&[], false, true), None, "it was made before there were any, and waits for its restart");
}
