//! The operator that the suites find installed: is it there, under which name does it write, and how it is stopped for a while. IO.

use crate::{
    command, ready,
    test::{PATIENCE, Test},
    verdict::Verdict,
    wait::wait_for_object,
};
use anyhow::{Context, Result, bail};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::Api;

pub const NAME: &str = "valkey-operator";
const SELECTOR: &str = "app.kubernetes.io/component=operator,app.kubernetes.io/instance=valkey-operator";

/// `OPERATOR_NAMESPACE`, as `e2e/install-operator` reads it.
pub fn namespace() -> String {
    std::env::var("OPERATOR_NAMESPACE").unwrap_or_else(|_| "valkey-operator-system".to_owned())
}

/// The user under which its requests stand in the audit log.
pub fn user() -> String {
    format!("system:serviceaccount:{}:{NAME}", namespace())
}

/// An error that names the remedy unless an operator is installed; waits until it is available.
pub async fn require(test: &Test) -> Result<()> {
    test.also_collect(&namespace());
    let deployments = Api::<Deployment>::namespaced(test.client(), &namespace());
    let found = deployments.get_opt(NAME).await.context("look for the operator")?;
    if found.is_none() {
        bail!("there is no operator in namespace {}: install it with e2e/install-operator", namespace());
    }
    let what = "the operator to be available; if nobody started it, e2e/install-operator does";
    wait_for_object(deployments, NAME, what, PATIENCE, |deployment| {
        let status = deployment.and_then(|deployment| deployment.status.as_ref());
        let available = status.and_then(|status| status.available_replicas).unwrap_or_default();
        Verdict::when(available > 0, || "no pod of it is".to_owned())
    })
    .await?;
    Ok(())
}

/// While this lives, no installed operator runs.
#[must_use = "the operator is started again as soon as the guard is dropped"]
pub struct StoppedOperator<'a> {
    test: &'a Test,
    /// How many there were.
    replicas: u8,
}

impl<'a> StoppedOperator<'a> {
    pub async fn stop(test: &'a Test) -> Result<Self> {
        require(test).await?;
        let deployment = Api::<Deployment>::namespaced(test.client(), &namespace()).get(NAME).await?;
        let replicas = deployment.spec.and_then(|spec| spec.replicas).and_then(|count| u8::try_from(count).ok());
        let guard = Self { test, replicas: replicas.unwrap_or_default().max(1) };
        guard.scale(0)?;
        let what = "the operator's pods to be gone";
        let pods = Api::<Pod>::namespaced(test.client(), &namespace());
        crate::wait_for_list(pods, SELECTOR, what, PATIENCE, |pods| {
            Verdict::when(pods.is_empty(), || format!("{} are left", pods.len()))
        })
        .await?;
        Ok(guard)
    }

    /// Starts it again and waits until it is ready.
    pub async fn start(self) -> Result<()> {
        self.scale(self.replicas)?;
        let pods = Api::<Pod>::namespaced(self.test.client(), &namespace());
        let what = "the operator to be Ready again";
        crate::wait_for_list(pods, SELECTOR, what, PATIENCE, ready::pods_ready(usize::from(self.replicas))).await?;
        Ok(())
    }

    fn scale(&self, replicas: u8) -> Result<()> {
        self.test.note(format!("scale the operator to {replicas}"));
        let mut command = self.test.environment.tool("kubectl").into_std();
        let (name, count) = (format!("deployment/{NAME}"), format!("--replicas={replicas}"));
        command.args(["scale", &name, &count, "--namespace", &namespace()]);
        command::run_blocking(command)?.success().map(drop)
    }
}

impl Drop for StoppedOperator<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.scale(self.replicas) {
            eprintln!("could not start the operator again, use e2e/install-operator: {error:#}");
        }
    }
}
