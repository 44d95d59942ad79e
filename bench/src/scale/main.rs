//! What it costs to have more shards and fewer again, under load and with data: the operator beside `valkey-cli` on the same nodes.
//! Runs against the testbed that `bench/scale` prepared; the operator and the images are there already.

mod by_hand;
mod data;
mod measured;
mod results;

use anyhow::{Context, Result};
use bench::{cluster::Cluster, table};
use clap::Parser;
use measured::Scaling;
use results::Results;

#[derive(Parser)]
#[command(about = "Measures how fast clusters get more shards and fewer again, and what that does to their clients")]
pub struct Arguments {
    /// Versions of Valkey to measure, as image tags
    #[arg(long, value_delimiter = ',', default_value = "9.1,8.1")]
    versions: Vec<String>,
    /// Keys of 100 bytes in a cluster whose slots move atomically
    #[arg(long, default_value_t = 700_000)]
    keys: u32,
    /// The same in one of Valkey 8, whose slots move key by key
    #[arg(long, default_value_t = 100_000)]
    keys_one_by_one: u32,
    /// How often each thing is measured
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
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
        let atomic = !version.starts_with("8.");
        let keys = if atomic { arguments.keys } else { arguments.keys_one_by_one };
        let mut results = Results::new(keys);
        let scaling = Scaling::prepare(cluster, version, keys, atomic).await?;
        for _ in 0..arguments.repetitions {
            scaling.measure(&mut results).await?;
        }
        scaling.cluster.delete().await?;
        table::heading(&format!("Valkey {version}, {keys} keys of 100 bytes, 1 replica each"));
        results.tell(atomic);
    }
    Ok(())
}
