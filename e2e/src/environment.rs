//! The cluster the tests run on: a client, which mode, and the tools that go with it. IO; made once per test by `scenario`.

use crate::{
    mode::{self, Mode},
    testbed::Testbed,
};
use anyhow::{Context, Result, ensure};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::path::PathBuf;

#[derive(Clone)]
pub struct Environment {
    pub client: Client,
    pub mode: Mode,
    /// `None` on an external cluster.
    pub testbed: Option<Testbed>,
}

impl Environment {
    /// Reads the environment's variables and reaches the cluster they allow; see `mode` for the rules.
    pub async fn connect() -> Result<Self> {
        let mode = mode::decide(|name| std::env::var(name).ok())?;
        match &mode {
            Mode::Testbed { name } => Self::of_testbed(Testbed::named(name)?, mode.clone()).await,
            Mode::External => Self::external().await,
        }
    }

    async fn of_testbed(testbed: Testbed, mode: Mode) -> Result<Self> {
        let path = testbed.kubeconfig();
        ensure!(path.exists(), "testbed {:?} is not up: start it with `make testbed-up`", testbed.name);
        let kubeconfig = Kubeconfig::read_from(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(Self { client: client(kubeconfig).await?, mode, testbed: Some(testbed) })
    }

    async fn external() -> Result<Self> {
        let kubeconfig = Kubeconfig::from_env().context("read KUBECONFIG")?.context("KUBECONFIG names no file")?;
        let named = std::env::var("E2E_EXTERNAL_CONTEXT").ok();
        mode::permit_context(kubeconfig.current_context.as_deref(), named.as_deref())?;
        Ok(Self { client: client(kubeconfig).await?, mode: Mode::External, testbed: None })
    }

    pub fn is_external(&self) -> bool {
        self.testbed.is_none()
    }

    /// A command of `kubectl` or `helm` that talks to this cluster, whatever the caller's shell is set up for.
    pub fn tool(&self, name: &str) -> tokio::process::Command {
        let Some(testbed) = &self.testbed else { return tokio::process::Command::new(name) };
        let mut command = tokio::process::Command::new(testbed.program(name));
        command.env("KUBECONFIG", testbed.kubeconfig()).env("KUBECACHEDIR", testbed.directory.join("kubectl-cache"));
        command
    }

    /// Logs of the cluster's own parts, where they can be read.
    pub fn part_logs(&self) -> Option<PathBuf> {
        self.testbed.as_ref().map(Testbed::logs_directory)
    }
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("use the kubeconfig")?;
    Client::try_from(config).context("make a client")
}
