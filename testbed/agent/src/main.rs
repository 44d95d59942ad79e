//! The program: reads its configuration, connects, runs the provisioner and the policy enforcer until told to stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use testbed_agent::config::Config;
use testbed_agent::policy::enforcer;
use testbed_agent::storage::{class, provision, reclaim, report::Report};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// What the client libraries have to say, the agent says itself, once and with what it means.
const DEFAULT_LOG: &str = "info,kube_client=off,kube_runtime=warn";

/// Gives the testbed cluster local volumes with real sizes and enforces ingress NetworkPolicies.
#[derive(Parser)]
struct Arguments {
    /// Kubeconfig of a cluster administrator
    #[arg(long)]
    kubeconfig: PathBuf,
    /// JSON file with volumes_dir and nodes
    #[arg(long)]
    config: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_LOG));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        result = work(&arguments) => result,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn work(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config::read(&arguments.config)?;
    std::fs::create_dir_all(&config.volumes_dir).context("cannot make volumes_dir")?;
    let client = connect(&arguments.kubeconfig).await?;
    let nodes = config.nodes.clone();
    let context = Arc::new(provision::Context { client: client.clone(), config, report: Report::new(client.clone()) });
    tracing::info!(nodes = nodes.len(), "started");
    tokio::join!(
        class::apply(client.clone()),
        provision::run(Arc::clone(&context)),
        reclaim::run(context),
        enforcer::run(client, &nodes),
    );
    anyhow::bail!("all watches have ended")
}

async fn connect(path: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.with_context(|| format!("{} names no usable cluster", path.display()))?;
    Ok(Client::try_from(config)?)
}
