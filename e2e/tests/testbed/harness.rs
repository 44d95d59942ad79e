//! The harness itself: what a failing test leaves, and what it does not.

use anyhow::{bail, ensure};
use e2e::{Environment, Scenario, Test, Verdict, collection, test::PATIENCE, wait_for_object, workload};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use std::{cell::RefCell, fs, path::Path, time::Duration};

#[test]
fn a_failing_test_leaves_evidence_and_no_namespace() -> anyhow::Result<()> {
    let name = "a-test-that-fails";
    let namespace = fail(Scenario::named(name), "42 is no answer", async |test| {
        test.apply(&workload::echo_pod("witness")).await?;
        test.wait_for_pod("witness").await?;
        bail!("42 is no answer")
    });
    let evidence = collection::directory_of(name)?;
    let read = |path: &str| fs::read_to_string(evidence.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(read("error.txt").contains("42 is no answer"));
    assert!(read("timeline.txt").contains("apply Pod witness"));
    assert!(read(&format!("{namespace}/events.txt")).contains("Pod/witness"));
    assert!(read(&format!("{namespace}/objects/pods.yaml")).contains("witness"));
    assert!(read(&format!("{namespace}/logs/witness.echo.log")).contains("Ready to accept"));
    assert!(read("cluster/nodes.yaml").contains("kubernetes.io/hostname"));
    has_part_logs(&evidence);
    fs::remove_dir_all(&evidence)?;
    is_gone(&namespace)
}

#[test]
fn a_panicking_test_leaves_evidence_and_no_namespace() -> anyhow::Result<()> {
    let name = "a-test-that-panics";
    let namespace = fail(Scenario::named(name), "panicked: left the path", async |_| panic!("left the path"));
    fs::remove_dir_all(collection::directory_of(name)?)?;
    is_gone(&namespace)
}

#[test]
fn a_test_that_hangs_is_ended_at_its_time_limit() -> anyhow::Result<()> {
    let name = "a-test-that-hangs";
    let scenario = Scenario::named(name).timeout(Duration::from_secs(1));
    let namespace = fail(scenario, "its time limit of 1 s", async |_| std::future::pending().await);
    fs::remove_dir_all(collection::directory_of(name)?)?;
    is_gone(&namespace)
}

#[test]
fn a_wait_that_runs_out_names_its_last_reason() -> anyhow::Result<()> {
    Scenario::named("a-wait-that-runs-out-names-its-last-reason").run(async |test| {
        let mut pod = workload::echo_pod("homeless");
        pod = workload::on_node(pod, "no-such-node");
        test.apply(&pod).await?;
        let wait = e2e::wait_for_object(
            test.api(),
            "homeless",
            "the homeless pod",
            Duration::from_secs(5),
            e2e::ready::pod_ready,
        );
        let message = wait.await.expect_err("no node fits").to_string();
        let told = message.starts_with("waited ")
            && message.contains(" s for the homeless pod; last seen: homeless: unscheduled (");
        ensure!(told, "{message}");
        ensure!(message.contains("didn't match"), "the scheduler's words are missing: {message}");
        Ok(())
    })
}

#[test]
fn two_tests_of_one_name_do_not_share_a_namespace() -> anyhow::Result<()> {
    let name = "two-tests-of-one-name-do-not-share-a-namespace";
    let namespaces = RefCell::new(Vec::new());
    for _ in 0..2 {
        Scenario::named(name).run(async |test| {
            namespaces.borrow_mut().push(test.namespace.clone());
            Ok(())
        })?;
    }
    let namespaces = namespaces.into_inner();
    assert_ne!(namespaces[0], namespaces[1]);
    Ok(())
}

#[test]
fn breaking_a_node_without_declaring_it_is_refused() -> anyhow::Result<()> {
    let scenario = Scenario::named("breaking-a-node-without-declaring-it-is-refused");
    scenario.needs_testbed("it uses the testbed's driver").run(async |test| {
        let refused = test.cut_node("node-1").await.map(|_| ());
        let message = format!("{:#}", refused.expect_err("the test shares the testbed with others"));
        assert!(message.contains("breaks_nodes"), "{message}");
        Ok(())
    })
}

/// Runs a scenario that must fail with a message; gives the namespace it had.
fn fail(scenario: Scenario, message: &str, body: impl AsyncFnOnce(&Test) -> anyhow::Result<()>) -> String {
    let namespace = RefCell::new(String::new());
    let outcome = scenario.run(async |test| {
        *namespace.borrow_mut() = test.namespace.clone();
        body(test).await
    });
    let error = format!("{:#}", outcome.expect_err("the scenario was to fail"));
    assert!(error.contains(message), "{error}");
    assert!(error.contains("e2e-failures"), "the path of the evidence is missing: {error}");
    namespace.into_inner()
}

fn has_part_logs(evidence: &Path) {
    if std::env::var("E2E_EXTERNAL").is_err() {
        assert!(evidence.join("parts/kube-apiserver.log").exists());
        assert!(fs::read_to_string(evidence.join("writes.txt")).unwrap().contains("pods"));
    }
}

fn is_gone(namespace: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let namespaces = Api::<Namespace>::all(Environment::connect().await?.client);
        let what = format!("namespace {namespace} to be gone");
        let outcome = wait_for_object(namespaces, namespace, &what, PATIENCE, |seen| {
            Verdict::when(seen.is_none(), || format!("{:?}", seen.and_then(|namespace| namespace.status.clone())))
        });
        Ok(outcome.await?)
    })
}
