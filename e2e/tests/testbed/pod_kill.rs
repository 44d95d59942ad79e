//! SIGKILL from outside: the kubelet starts the container again, and the dead one's log is still there.

use e2e::{Scenario, Verdict, ready, test::PATIENCE, workload};
use k8s_openapi::api::core::v1::Pod;

#[test]
fn a_killed_container_is_started_again() -> anyhow::Result<()> {
    Scenario::named("a-killed-container-is-started-again").needs_testbed("it kills a process on a node").run(
        async |test| {
            test.apply(&workload::echo_pod("victim")).await?;
            test.wait_for_pod("victim").await?;
            test.kill_pod("victim", Some("echo")).await?;
            test.wait_for_object("victim", "the container's first restart", PATIENCE, restarted_once).await?;
            let previous = test.previous_logs("victim", "echo").await?;
            assert!(previous.contains("Ready to accept connections"), "{previous}");
            Ok(())
        },
    )
}

#[test]
fn killing_a_pod_that_does_not_exist_says_so() -> anyhow::Result<()> {
    let scenario = Scenario::named("killing-a-pod-that-does-not-exist-says-so");
    scenario.needs_testbed("it uses the testbed's driver").run(async |test| {
        let error = test.kill_pod("nobody", None).await.expect_err("there is no such pod");
        assert!(format!("{error:#}").contains("nobody"), "{error:#}");
        Ok(())
    })
}

fn restarted_once(pod: Option<&Pod>) -> Verdict<()> {
    let status = pod.and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref()?.first());
    let killed = status.and_then(|status| status.last_state.as_ref()?.terminated.as_ref()).map(|state| state.exit_code);
    match (status.map(|status| status.restart_count), killed) {
        (Some(1), Some(137)) => ready::pod_ready(pod).map(|_| ()),
        (restarts, code) => Verdict::NotYet(format!("restarts: {restarts:?}, last exit code: {code:?}")),
    }
}
