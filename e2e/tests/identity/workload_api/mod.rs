//! Identities from a SPIFFE Workload API: the chart is told so, every pod has the socket of an agent from a driver of the tests' own, and
//! operator and sidecars find each other without a Secret.

mod csi;
mod driver;

use crate::stored::{connected, secret, transitions};
use anyhow::{Context, Result, ensure};
use api::certificates::{ValkeyCertificateBundle, names};
use api::names as common;
use driver::{DOMAIN, Driver};
use e2e::{Cluster, PATIENCE, Scenario, Test, Verdict, cluster, operator};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::time::Duration;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/valkey-operator");
const HOUR: Duration = Duration::from_secs(3600);
const PODS: usize = 3;

#[test]
fn operator_and_sidecars_live_on_certificates_from_a_workload_api() -> Result<()> {
    let scenario = Scenario::named("certificates-from-a-workload-api");
    let scenario = scenario.alone("it gives the operator that all tests need another identity");
    scenario.needs_testbed("it serves the nodes' kubelets a driver of its own").run(async |test| {
        operator::require(test).await?;
        let driver = Driver::start(test, HOUR).await?;
        let outcome = with_workload_api(test, &driver).await;
        // While the driver is there: no pod with one of its volumes can end without it.
        let ended = back_to_the_built_in(test, &driver).await;
        outcome.and(ended)
    })
}

async fn with_workload_api(test: &Test, driver: &Driver) -> Result<()> {
    let domain = format!("identity.workloadApi.trustDomain={DOMAIN}");
    upgrade(test, &["--set", "identity.source=workload-api", "--set", &domain]).await?;
    let poc = Cluster::create(test, "poc", json!({})).await?;
    poc.ready().await?;
    connected(&poc, PODS).await?;
    every_pod_has_an_agent(test, driver)?;
    nothing_of_the_built_in(test, &poc).await?;
    ensure!(!operator_may_read_secrets(test).await?, "the operator has a right to Secrets that it does not need");
    let (lives, before) = (cluster::lives(&poc.pods().await?), transitions(&poc).await?);
    let end = Timestamp::now() + HOUR * 2;
    driver.renew(HOUR * 3)?;
    all_show_one_that_ends_after(&poc, end).await?;
    ensure!(transitions(&poc).await? == before, "Ready or SidecarsConnected changed under a rotation");
    ensure!(cluster::lives(&poc.pods().await?) == lives, "a new certificate restarted pods");
    Ok(())
}

async fn back_to_the_built_in(test: &Test, driver: &Driver) -> Result<()> {
    let all = test.kubectl(&["delete", "valkeyclusters", "--all", "--wait=false"]).await?;
    all.success()?;
    upgrade(test, &["--set", "identity.source=built-in"]).await?;
    test.wait_for("no pod to have a volume of the driver", e2e::PATIENCE, async || {
        let left = driver.serves();
        Ok(Verdict::when(left.is_empty(), || format!("{left:?}")))
    })
    .await?;
    driver::renounce(test).await
}

async fn upgrade(test: &Test, more: &[&str]) -> Result<()> {
    let namespace = operator::namespace();
    let upgrade =
        ["upgrade", operator::NAME, CHART, "--namespace", &namespace, "--reuse-values", "--wait", "--timeout", "180s"];
    let arguments: Vec<&str> = upgrade.iter().chain(more).copied().collect();
    test.helm(&arguments).await?.success().map(drop)
}

fn every_pod_has_an_agent(test: &Test, driver: &Driver) -> Result<()> {
    let (given, namespace) = (driver.serves(), &test.namespace);
    let count = |id: String| given.iter().filter(|given| **given == id).count();
    let sidecars = count(format!("spiffe://{DOMAIN}/ns/{namespace}/valkeycluster/poc/sidecar"));
    let operators = count(format!("spiffe://{DOMAIN}/ns/{}/valkey-operator", operator::namespace()));
    ensure!(sidecars == PODS && operators == 1 && given.len() == PODS + 1, "{given:?}");
    Ok(())
}

async fn nothing_of_the_built_in(test: &Test, poc: &Cluster<'_>) -> Result<()> {
    ensure!(secret(test, &common::mtls_secret(&poc.name)).await?.is_none(), "there is a Secret with a leaf");
    let bundle = test.api::<ValkeyCertificateBundle>().get_opt(&names::bundle(&poc.name)).await?;
    ensure!(bundle.is_none(), "there is a ValkeyCertificateBundle");
    Ok(())
}

async fn operator_may_read_secrets(test: &Test) -> Result<bool> {
    let (user, namespace) = (operator::user(), operator::namespace());
    let mut answers = String::new();
    for place in [namespace.as_str(), test.namespace.as_str()] {
        let question = ["auth", "can-i", "get", "secrets", "--as", &user, "--namespace", place];
        answers += test.kubectl(&question).await?.stdout.trim();
    }
    ensure!(answers.contains("no") || answers.contains("yes"), "no answer: {answers}");
    Ok(answers.contains("yes"))
}

async fn all_show_one_that_ends_after(poc: &Cluster<'_>, moment: Timestamp) -> Result<()> {
    poc.test
        .wait_for("all sidecars to show the new certificate", PATIENCE, async || {
            let pods = poc.get().await?.status.context("it has a status")?.pods;
            let ends: Vec<_> =
                pods.iter().filter_map(|pod| pod.certificate_expires.as_ref()).map(|end| end.0).collect();
            let all = ends.len() == PODS && ends.iter().all(|end| *end > moment);
            Ok(Verdict::when(all, || format!("{ends:?}")))
        })
        .await
}
