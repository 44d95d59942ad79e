//! The certificates of the sidecars as a part of the plan: what is made when, what waits, and what the checker refuses.

#![allow(clippy::unwrap_used)] // a test that cannot go on fails

use api::cluster::ValkeyCluster;
use certificates::{ClusterView, Found, Intermediate, Leaf, Policy, Why};
use jiff::{SignedDuration, Timestamp};
use manifests::OperatorSettings;
use pki::{Lifetime, Percent, Scope, Thumbprint};
use planner::nodes::{Answers, NodeObservation, Orchestration, OrchestrationKind, Stage};
use planner::safety::check_write;
use planner::{Certificates, CertificatesRead, Identity, Made, Observation, Plan, Step, plan, validate};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const HOUR: i64 = 60 * 60;

fn thumbprint(text: &str) -> Thumbprint {
    Thumbprint::recorded(text)
}

fn lifetime(began_hours_ago: i64, hours: i64) -> Lifetime {
    let issued_at = NOW - SignedDuration::from_secs(began_hours_ago * HOUR);
    Lifetime { issued_at, expires_at: issued_at + SignedDuration::from_secs(hours * HOUR) }
}

/// A leaf of six hours, made so long ago.
fn leaf(hours_ago: i64) -> Leaf {
    Leaf {
        thumbprint: thumbprint("leaf"),
        issuer: thumbprint("intermediate"),
        root: thumbprint("root"),
        roots: BTreeSet::from([thumbprint("root")]),
        lifetime: lifetime(hours_ago, 6),
    }
}

fn read(leaf: Found<Leaf>) -> CertificatesRead {
    let intermediate = Intermediate {
        thumbprint: thumbprint("intermediate"),
        root: Some(thumbprint("root")),
        lifetime: lifetime(1, 8_760),
    };
    let view = ClusterView {
        signing: thumbprint("root"),
        trusted: BTreeSet::from([thumbprint("root")]),
        intermediate: Found::Whole(intermediate),
        leaf,
        known: true,
        orchestrating: false,
        pods: Vec::new(),
    };
    let validity = Duration::from_secs(6 * 60 * 60);
    let renew_before = Some(Duration::from_secs(30 * 24 * 60 * 60));
    CertificatesRead {
        view,
        policy: Policy { validity, percent: Percent::EARLIEST, renew_before },
        id: Scope::cluster("team-a", "poc").unwrap().identity(),
        bundle: None,
        binding: None,
        written: NOW,
        foreign: None,
        immutable: None,
        made: None,
    }
}

fn observation(certificates: CertificatesRead) -> Observation {
    let cluster = Identity {
        name: "poc".into(),
        namespace: "team-a".into(),
        uid: "uid".into(),
        generation: Some(1),
        deleting: false,
    };
    Observation { cluster, certificates: Certificates::Read(Box::new(certificates)), ..Observation::default() }
}

fn with_orchestration(certificates: CertificatesRead) -> Observation {
    let running = Orchestration {
        id: "heal-1".into(),
        kind: OrchestrationKind::Heal,
        step: Stage::Meet,
        step_version: 1,
        started_at: NOW,
        step_started_at: NOW,
        waiting_for: None,
        answers: Answers::default(),
        announced: true,
    };
    let nodes = NodeObservation { running: Some(running), ..NodeObservation::default() };
    Observation { nodes: Some(nodes), ..observation(certificates) }
}

fn planned(spec: Value, observation: &Observation) -> Plan {
    let cluster: ValkeyCluster = serde_json::from_value(json!({
        "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "spec": spec,
        "metadata": { "name": "poc", "namespace": "team-a", "uid": "uid", "generation": 1 },
    }))
    .unwrap();
    let settings = OperatorSettings { sidecar_image: "sidecar:1".to_owned(), line: None };
    let validated = validate(&cluster, &settings, observation);
    plan(validated.as_ref().map_err(Vec::as_slice), observation, NOW)
}

fn issued(plan: &Plan) -> Vec<&Why> {
    let why = |step: &'_ Step| matches!(step, Step::IssueCertificate { .. });
    let steps = plan.steps.iter().filter(|step| why(step));
    steps.filter_map(|step| if let Step::IssueCertificate { why, .. } = step { Some(why) } else { None }).collect()
}

fn creates_pods(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| step.to_string() == "create StatefulSet poc")
}

#[test]
fn pods_are_made_when_there_is_a_certificate_and_not_before() {
    let absent = planned(json!({}), &observation(read(Found::Absent)));
    assert_eq!(issued(&absent), [&Why::Repair("it is not there".into())]);
    assert!(!creates_pods(&absent), "{:?}", absent.report.waiting);
    let whole = planned(json!({}), &observation(read(Found::Whole(leaf(1)))));
    assert!(issued(&whole).is_empty() && creates_pods(&whole));
}

#[test]
fn a_certificate_that_is_due_waits_for_an_orchestration_until_its_end_is_near() {
    let due = |hours| read(Found::Whole(leaf(hours)));
    assert_eq!(issued(&planned(json!({}), &observation(due(4)))), [&Why::Due]);
    let waits = planned(json!({}), &with_orchestration(due(4)));
    assert!(issued(&waits).is_empty() && waits.report.certificates.postponed);
    assert_eq!(issued(&planned(json!({}), &with_orchestration(due(7)))), [&Why::Expired]);
}

#[test]
fn the_checker_refuses_what_would_replace_a_certificate_without_need() {
    let replace = |leaf: Option<&str>| Step::IssueCertificate {
        why: Why::Due,
        intermediate: None,
        replaces: leaf.map(thumbprint),
    };
    let refused =
        |step: Step, observation: &Observation| check_write(&step, observation, NOW).err().unwrap_or_default();
    let whole = || read(Found::Whole(leaf(4)));
    assert_eq!(refused(replace(Some("leaf")), &observation(whole())), "");
    assert!(refused(replace(Some("other")), &observation(whole())).contains("another certificate"));
    assert!(refused(replace(None), &observation(whole())).contains("another certificate"));
    assert!(refused(replace(Some("leaf")), &with_orchestration(whole())).contains("orchestration"));
    let foreign = read(Found::Unreadable("it is somebody else's".into()));
    assert!(refused(replace(None), &observation(foreign)).contains("not ours"));
    assert!(refused(replace(None), &Observation::default()).contains("not read"));
    let mut untrusted = whole();
    untrusted.view.trusted.clear();
    let roots = Step::WriteRoots { beside: thumbprint("leaf") };
    assert!(refused(roots, &observation(untrusted)).contains("would not be trusted"));
}

#[test]
fn a_spec_that_cannot_be_read_or_a_pause_does_not_let_certificates_end() {
    let due = observation(read(Found::Whole(leaf(4))));
    let invalid = planned(json!({ "masterCount": 0 }), &due);
    assert!(invalid.shape.is_none(), "the spec is invalid");
    assert_eq!(issued(&invalid), [&Why::Due]);
    let never = planned(json!({ "paused": true }), &observation(read(Found::Absent)));
    assert!(issued(&never).is_empty(), "a paused cluster that never had any gets none");
}

#[test]
fn a_repair_is_told_by_those_that_show_the_certificate() {
    let bundle = json!({ "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCertificateBundle",
        "metadata": { "name": "poc", "uid": "bundle" },
        "spec": { "caRef": "a", "purpose": "mtls", "certSecretRef": "a", "keySecretRef": "a" } });
    let mut read = read(Found::Whole(leaf(0)));
    read.bundle = serde_json::from_value(bundle).unwrap();
    let why = Why::Repair("it is not there".into());
    read.made = Some(Made { leaf: thumbprint("leaf"), why: why.clone(), intermediate: Some(why) });
    let plan = planned(json!({}), &observation(read));
    let [status] = plan.report.certificates.statuses.as_slice() else { panic!("{:?}", plan.report.certificates) };
    assert_eq!((status.kind, status.uid.as_str()), ("ValkeyCertificateBundle", "bundle"));
    assert!(status.status.to_string().contains("Repaired"), "{}", status.status);
}

#[test]
fn a_secret_that_is_in_the_way_is_named() {
    let foreign = CertificatesRead { foreign: Some("poc-mtls".into()), ..read(Found::Unreadable("not ours".into())) };
    let plan = planned(json!({}), &observation(foreign));
    let trouble = plan.report.troubles.first().unwrap();
    assert_eq!(trouble.reason, api::conditions::Reason::NameTaken);
    assert!(trouble.message.contains("Secret poc-mtls is in the way"), "{}", trouble.message);
    assert!(issued(&plan).is_empty() && !creates_pods(&plan));
}

#[test]
fn a_secret_that_somebody_made_immutable_is_named_with_the_remedy() {
    let whole = read(Found::Whole(leaf(1)));
    let plan = planned(json!({}), &observation(CertificatesRead { immutable: Some("poc-mtls".into()), ..whole }));
    let trouble = plan.report.troubles.first().unwrap();
    assert_eq!(trouble.reason, api::conditions::Reason::ObjectRefused);
    assert!(trouble.message.contains("Secret poc-mtls was made immutable") && trouble.message.contains("delete it"));
}
