//! The life of testbeds themselves: two at once, killed in the middle of things, and gone without a trace.
//! Each test makes testbeds of its own, so they need the machine and take turns, also over processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod own;
mod quiet;

use anyhow::{Context, Result};
use e2e::{PATIENCE, Testbed, machine::Machine, objects, process, ready, wait_for_list, wait_for_object, workload};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use own::{Own, Victims};
use quiet::{alone, leaves_nothing, ours};

const MANIFEST: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {}, policyTypes: [Ingress]}
";

#[test]
fn two_testbeds_at_once_do_not_disturb_each_other() -> Result<()> {
    alone("two-testbeds-at-once-do-not-disturb-each-other", async |before| {
        let (first, second) = (Own::named("e2e-first")?, Own::named("e2e-second")?);
        tokio::try_join!(first.up_with_image(), second.up_with_image())?;
        let (of_first, of_second) = (first.client().await?, second.client().await?);
        make_namespace(&of_first, "only-in-first").await?;
        assert!(Api::<Namespace>::all(of_second.clone()).get_opt("only-in-first").await?.is_none());
        runs_a_pod(&of_first).await?;
        runs_a_pod(&of_second).await?;
        first.down().await?;
        is_ready(&of_second).await?;
        answers(&of_second, "echo").await?;
        second.down().await?;
        leaves_nothing(before).await
    })
}

#[test]
fn down_leaves_nothing_behind_and_works_twice() -> Result<()> {
    alone("down-leaves-nothing-behind-and-works-twice", async |before| {
        let own = Own::named("e2e-gone")?;
        own.up_with_image().await?;
        let client = own.client().await?;
        objects::apply_yaml(&client, "default", MANIFEST).await?;
        objects::apply(&client, "default", &workload::claim("data", "300Mi")).await?;
        objects::apply(&client, "default", &workload::echo_service("writer")).await?;
        objects::apply(&client, "default", &workload::echo_pod_with_claim("writer", "data")).await?;
        pod_is_ready(&client, "writer").await?;
        assert!(
            !ours(Machine::snapshot()?.beyond(before)).is_empty(),
            "the comparison sees nothing of a living testbed"
        );
        own.down().await?;
        leaves_nothing(before).await?;
        own.down().await
    })
}

#[test]
fn a_memory_limit_holds_in_the_cgroup_and_a_power_cut_leaves_no_process_in_it() -> Result<()> {
    alone("a-memory-limit-holds-in-the-cgroup-and-a-power-cut-leaves-no-process-in-it", async |before| {
        let own = Own::named("e2e-limited")?;
        own.up_with_image().await?;
        let client = own.client().await?;
        objects::apply(&client, "default", &workload::limited("echo", "64Mi")).await?;
        let pod = pod_is_ready(&client, "echo").await?;
        assert_eq!(process::memory_limit(&pod, "echo")?, 64 << 20);
        own.testbed.driver(&["node", "stop", "node-1"]).await?;
        assert!(!process::is_running(&pod, "echo"), "the container outlived its node");
        own.down().await?;
        leaves_nothing(before).await
    })
}

#[test]
fn up_finishes_what_a_killed_up_began() -> Result<()> {
    alone("up-finishes-what-a-killed-up-began", async |before| {
        let own = Own::named("e2e-killed")?;
        for milestone in ["testbed.json", "kubeconfig", "audit.log"] {
            own.killed_while_starting(milestone, Victims::Driver).await?;
            own.up().await.with_context(|| format!("up after a kill at {milestone}"))?;
            own.down().await?;
        }
        own.killed_while_starting("audit.log", Victims::DriverAndInit).await?;
        own.up_with_image().await?;
        own.up_with_image().await.context("the same again, on a testbed that is up")?;
        runs_a_pod(&own.client().await?).await?;
        own.killed_and_down().await?;
        leaves_nothing(before).await
    })
}

#[test]
fn a_testbed_whose_init_was_killed_can_be_brought_up_again() -> Result<()> {
    alone("a-testbed-whose-init-was-killed-can-be-brought-up-again", async |before| {
        let own = Own::named("e2e-beheaded")?;
        own.up_with_image().await?;
        runs_a_pod(&own.client().await?).await?;
        own.kill_init().await?;
        let status = own.testbed.try_driver(&["status"]).await?;
        assert_ne!(status.code, 0, "a testbed without init is reported as well: {status:?}");
        own.up().await?;
        is_ready(&own.client().await?).await?;
        own.kill_init().await?;
        own.down().await?;
        leaves_nothing(before).await
    })
}

#[test]
fn bad_requests_are_answered_with_one_sentence() -> Result<()> {
    alone("bad-requests-are-answered-with-one-sentence", async |_| {
        let nowhere = Testbed::named("e2e-nowhere")?;
        for arguments in [&["status"][..], &["kubeconfig"], &["node", "cut", "node-1"], &["pod", "kill", "a/b"]] {
            let answer = nowhere.try_driver(arguments).await?;
            assert_ne!(answer.code, 0, "{answer:?}");
            assert!(answer.stderr.contains("e2e-nowhere"), "{answer:?}");
            assert_eq!(answer.stderr.trim().lines().count(), 1, "{answer:?}");
        }
        Ok(())
    })
}

async fn make_namespace(client: &Client, name: &str) -> Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    Ok(())
}

async fn is_ready(client: &Client) -> Result<()> {
    wait_for_list(Api::<Node>::all(client.clone()), "", "the node to be Ready", PATIENCE, ready::nodes_ready).await?;
    Ok(())
}

async fn runs_a_pod(client: &Client) -> Result<()> {
    objects::apply(client, "default", &workload::echo_pod("echo")).await?;
    pod_is_ready(client, "echo").await?;
    answers(client, "echo").await
}

async fn pod_is_ready(client: &Client, name: &str) -> Result<Pod> {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    Ok(wait_for_object(pods, name, &format!("pod {name} to be Ready"), PATIENCE, ready::pod_ready).await?)
}

async fn answers(client: &Client, pod: &str) -> Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let output = e2e::exec::exec(&pods, pod, None, &["valkey-cli", "ping"]).await?;
    assert_eq!(output.stdout.trim(), "PONG", "{output:?}");
    Ok(())
}
