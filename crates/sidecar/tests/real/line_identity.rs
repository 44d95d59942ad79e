//! Certificates of the line: missing, renewed, broken, and an operator that is somebody else.

use crate::{
    installation::{Installation, SYSTEM},
    line::Pair,
    line_operator::RunningOperator,
    pod::Pod,
};
use link::contract::report_request::Event;
use valkey::testing::ServerVersion;

#[test]
fn without_an_operator_or_a_certificate_the_pod_works_alone_and_says_so() {
    let installation = Installation::new();
    let operator = RunningOperator::start(installation.operator(SYSTEM));
    let pod = Pod::settled(ServerVersion::V9_1, &[]);
    let mut pair = Pair { installation, operator, pod };
    pair.wait_problem("works alone");
    pair.pod.line = pair.operator.settings();
    pair.pod.set(&[]);
    pair.wait_problem("no certificate");
    assert!(pair.line()["certificateProblem"].is_string());
    assert_eq!((pair.operator.beats(), pair.pod.get("/valkey/liveness").status), (0, 200));
    pair.installation.provide(&pair.pod);
    pair.wait_connected();
    pair.pod.line = serde_json::Value::Null;
    pair.pod.set(&[]);
    pair.wait_problem("works alone");
    assert_eq!(pair.line()["connected"], false);
}

#[test]
fn new_certificates_are_taken_up_with_no_failed_call_and_no_gap() {
    let pair = Pair::connected(ServerVersion::V9_1);
    for _ in 0..3 {
        let leaf = pair.installation.rotate(&pair.pod);
        pair.pod.wait_for("a connection with the new certificate", |_| {
            let line = pair.line();
            assert!(line["connected"] == true && line["problem"].is_null(), "{line}");
            line["connectionCertificate"] == leaf
        });
        assert_eq!(pair.line()["certificate"]["thumbprint"], leaf);
        let shown = pair.operator.received.beats.lock().unwrap().last().map(|(sidecar, _)| sidecar.certificate.clone());
        assert_eq!(shown.unwrap().thumbprint.to_string(), leaf);
    }
    assert!(pair.operator.refusals().is_empty(), "{:?}", pair.operator.refusals());
}

#[test]
fn a_broken_certificate_leaves_the_last_good_one_and_the_line_in_force() {
    let pair = Pair::connected(ServerVersion::V9_1);
    let before = pair.line()["certificate"]["thumbprint"].clone();
    pair.installation.swap(&pair.pod, &[("tls.crt", "nonsense"), ("tls.key", "nonsense"), ("ca.crt", "nonsense")]);
    pair.pod.wait_for("the problem in /status", |_| pair.line()["certificateProblem"].is_string());
    let beats = pair.operator.beats();
    pair.pod.wait_for("a held call", |_| pair.operator.wake());
    pair.pod.wait_for("a heartbeat all the same", |_| pair.operator.beats() > beats);
    assert_eq!(pair.line()["certificate"]["thumbprint"], before);
    assert!(!pair.pod.log().contains("PRIVATE KEY"));
    let leaf = pair.installation.rotate(&pair.pod);
    pair.pod.wait_for("the repaired one", |_| pair.line()["connectionCertificate"] == leaf);
    pair.pod.wait_for("no problem", |_| pair.line()["certificateProblem"].is_null());
}

#[test]
fn an_operator_with_another_identity_is_told_nothing() {
    let mut pair = Pair::new(ServerVersion::V9_1);
    // Of the same authority, and in another namespace.
    pair.operator = RunningOperator::start(pair.installation.operator("elsewhere"));
    pair.pod.line = pair.operator.settings();
    pair.pod.set(&[]);
    pair.pod.start_sidecar(&[]);
    pair.wait_problem("spiffe://elsewhere/valkey-operator");
    assert_eq!((pair.operator.beats(), pair.line()["connected"].clone()), (0, false.into()));
}

#[test]
fn an_operator_of_another_authority_is_told_nothing() {
    let mut pair = Pair::new(ServerVersion::V9_1);
    pair.operator = RunningOperator::start(Installation::new().operator(SYSTEM));
    pair.pod.line = pair.operator.settings();
    pair.pod.set(&[]);
    pair.pod.start_sidecar(&[]);
    pair.wait_problem("handshake");
    assert_eq!(pair.operator.beats(), 0);
}

#[test]
fn a_certificate_that_nobody_renews_is_reported_while_it_still_serves() {
    let pair = Pair::connected(ServerVersion::V9_1);
    pair.installation.age(&pair.pod);
    let (_, event) =
        pair.operator.wait_report(&pair.pod, "the age", |event| matches!(event, Event::CertificateNearExpiry(_)));
    let Event::CertificateNearExpiry(told) = event else { unreachable!() };
    let expires = pair.line()["certificate"]["expires"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!((told.purpose.as_str(), told.expires_unix_seconds), ("mtls", expires.as_second() as u64));
    assert_eq!(pair.line()["connected"], true);
}
