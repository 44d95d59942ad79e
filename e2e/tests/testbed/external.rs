//! A cluster that is not ours: never touched without two explicit words, and what it cannot carry is skipped by name.
//! The tests run this very binary again with other variables, on the testbed dressed up as somebody else's cluster.

use e2e::{Testbed, describe, mode, skip};
use std::process::{Command, Output};

const TESTBED_ONLY: &str = "audit_log::the_audit_log_shows_writes_by_name_and_number";
const ANYWHERE: &str = "pod_security::pod_security_refuses_a_privileged_pod";

#[test]
fn an_external_cluster_is_refused_until_its_context_is_named() {
    let Some(output) = run_external(ANYWHERE, None) else { return };
    assert!(!output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("set E2E_EXTERNAL_CONTEXT=testbed-"), "{}", text(&output));
}

#[test]
fn an_external_cluster_runs_what_needs_no_testbed() {
    let Some(output) = run_external(ANYWHERE, Some("named")) else { return };
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("1 passed"), "{}", text(&output));
}

#[test]
fn what_an_external_cluster_cannot_carry_is_skipped_by_name() {
    let Some(output) = run_external(TESTBED_ONLY, Some("named")) else { return };
    assert!(output.status.success(), "{}", text(&output));
    let line = "SKIPPED the-audit-log-shows-writes-by-name-and-number: it reads the API server's audit log";
    assert!(String::from_utf8_lossy(&output.stderr).contains(line), "{}", text(&output));
}

/// `None` when these tests themselves run externally: there is no testbed to dress up then.
fn run_external(test: &str, named: Option<&str>) -> Option<Output> {
    if describe::is_asked() {
        describe::tell(describe::SHARED).unwrap();
        return None;
    }
    let Ok(mode::Mode::Testbed { name }) = mode::decide(|name| std::env::var(name).ok()) else {
        skip::report(&format!("external::{test}"), "there is no testbed to dress up").unwrap();
        return None;
    };
    let testbed = Testbed::named(&name).unwrap();
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env("E2E_EXTERNAL", "1").env("KUBECONFIG", testbed.kubeconfig());
    command.env("E2E_SKIP_REPORT", report.path()).env_remove("E2E_EXTERNAL_CONTEXT");
    if named.is_some() {
        command.env("E2E_EXTERNAL_CONTEXT", format!("testbed-{name}"));
    }
    Some(command.output().unwrap())
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
