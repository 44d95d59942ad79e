//! What people wait for: a cluster to form, writes to go on after a primary is lost, and the status to say what is so. Each beside its floor on the same nodes.
//! Runs against the testbed that `bench/orchestration` prepared; the operator and the images are there already.

mod failover;
mod formation;
mod status;

use anyhow::{Context, Result};
use bench::{cluster::Cluster, table};
use clap::Parser;
use std::path::PathBuf;

#[derive(Parser)]
#[command(about = "Measures how fast clusters form and fail over")]
pub struct Arguments {
    /// Versions of Valkey to measure, as image tags
    #[arg(long, value_delimiter = ',', default_value = "8.1,9.1")]
    versions: Vec<String>,
    /// How often each thing is measured
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// The testbed's driver, which kills processes from outside
    #[arg(long, env = "TESTBED_BIN", default_value = "target/debug/testbed")]
    testbed: PathBuf,
    /// Namespace for everything made here; it must exist
    #[arg(long, default_value = "bench")]
    namespace: String,
}

// The load has a thread of its own; what is left mostly waits.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let client = kube::Client::try_default().await.context("no cluster to measure on: set KUBECONFIG")?;
    for version in &arguments.versions {
        let cluster = Cluster::new(&client, &arguments.namespace, version);
        table::heading(&format!("Valkey {version}, 3 primaries × 1 replica"));
        formation::measure(&cluster, arguments.repetitions).await?;
        failover::measure(&cluster, &arguments).await?;
        status::measure(&cluster, &arguments).await?;
        cluster.delete().await?;
    }
    Ok(())
}
