//! The floor: what `valkey-cli` takes to empty three of six primaries and to fill them again, while the operator is paused. IO.

use crate::data;
use anyhow::{Context, Result};
use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::{
    process::Command,
    time::{sleep, timeout},
};
use topology::ClusterNode;

const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(30);

pub struct ByHand {
    cli: PathBuf,
    moves: &'static [&'static str],
}

impl ByHand {
    /// `images/fetch-valkey` says where the programs of a version are.
    pub fn new(version: &str, atomic: bool) -> Result<Self> {
        let variable = format!("VALKEY_SERVER_{}", version.replace('.', "_"));
        let server = std::env::var_os(&variable)
            .with_context(|| format!("{variable} is not set: export $(images/fetch-valkey {version})"))?;
        let moves: &[&str] = match atomic {
            true => &["--cluster-use-atomic-slot-migration"],
            false => &["--cluster-pipeline", "100"],
        };
        Ok(Self { cli: PathBuf::from(server).with_file_name("valkey-cli"), moves })
    }

    /// Until the last three primaries have no slots.
    pub async fn empty_half(&self, seed: SocketAddr) -> Result<Duration> {
        let view = data::view(seed).await?;
        let primaries = view.0.iter().filter(|node| node.is_primary());
        let mut ids: Vec<String> = primaries.map(|node| node.id.to_string()).collect();
        ids.sort();
        let weights = ids.iter().skip(ids.len() / 2).map(|id| format!("{id}=0"));
        let arguments: Vec<String> = std::iter::once("--cluster-weight".to_owned()).chain(weights).collect();
        self.rebalance(seed, &arguments, ids.len() / 2).await
    }

    /// Until they have their share again.
    pub async fn fill_half(&self, seed: SocketAddr) -> Result<Duration> {
        let primaries = data::view(seed).await?.0.iter().filter(|node| node.is_primary()).count();
        self.rebalance(seed, &["--cluster-use-empty-primaries".to_owned()], primaries).await
    }

    async fn rebalance(&self, seed: SocketAddr, arguments: &[String], owners: usize) -> Result<Duration> {
        let entry = entry(seed).await?;
        // After a change it refuses to begin until the nodes agree.
        timeout(PATIENCE, self.agreed(&entry)).await.context("the nodes did not come to agree")??;
        let began = Instant::now();
        let mut command = Command::new(&self.cli);
        command.args(["--cluster", "rebalance", &entry]).args(arguments).args(self.moves);
        let output = command.output().await.with_context(|| format!("run {}", self.cli.display()))?;
        let took = began.elapsed();
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().unwrap_or_default();
        timeout(PATIENCE, owned_by(seed, owners)).await.with_context(|| format!("rebalance ended with: {last}"))??;
        Ok(took)
    }

    async fn agreed(&self, entry: &str) -> Result<()> {
        loop {
            let output = Command::new(&self.cli).args(["--cluster", "check", entry]).output().await?;
            if output.status.success() {
                return Ok(());
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }
}

/// A node itself: `valkey-cli` takes the address it was given for that of the node behind it, and a Service's is that of many.
async fn entry(seed: SocketAddr) -> Result<String> {
    let view = data::view(seed).await?;
    let address = view.0.iter().find(|node| node.is_primary()).and_then(|node| node.address);
    Ok(address.context("no primary with an address")?.to_string())
}

/// Its exit code does not tell whether everything moved.
async fn owned_by(seed: SocketAddr, owners: usize) -> Result<()> {
    let owns = |node: &&ClusterNode| !node.slots.is_empty();
    loop {
        let view = data::view(seed).await?;
        let slots: u32 = view.0.iter().map(|node| node.slots.count()).sum();
        if slots == u32::from(load::slot::SLOTS) && view.0.iter().filter(owns).count() == owners {
            return Ok(());
        }
        sleep(BETWEEN_LOOKS).await;
    }
}
