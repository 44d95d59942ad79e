//! The line at size: thousands of simulated sidecars over real mutual TLS on loopback against one operator process, and then two
//! hostile tenants beside them.
//! The fleet lives in this process; the operator, the floor and the single sidecar are children, so that memory and
//! processor time are theirs alone.

mod bare;
mod certificates;
mod child;
mod fleet;
mod hostile;
mod numbers;
mod process;
mod run;
mod server;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measures the line between operator and sidecars")]
pub struct Arguments {
    /// Simulated sidecars
    #[arg(long, default_value_t = 10_000)]
    sidecars: usize,
    /// Pods of one cluster; they share a certificate
    #[arg(long, default_value_t = 100)]
    pods_per_cluster: usize,
    /// How long to let things settle before the steady state is watched; above a heartbeat's interval
    #[arg(long, default_value_t = 70)]
    settle_seconds: u64,
    /// How long the steady state is watched
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Over how long all certificates are changed
    #[arg(long, default_value_t = 60)]
    rotate_seconds: u64,
    /// How often they are changed: memory must not grow with it
    #[arg(long, default_value_t = 3)]
    rotations: usize,
    /// Only what hostile tenants do to the others
    #[arg(long)]
    only_hostile: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What the children run; not for the command line.
#[derive(Subcommand, Clone, Copy)]
enum Part {
    #[command(hide = true)]
    Serve,
    #[command(hide = true)]
    Bare,
    #[command(hide = true)]
    Sidecar,
    #[command(hide = true)]
    Hostile,
}

// Each connection has a buffer of 16 KiB of which little is ever used. This allocator gives it whole pages of its own; with
// the system's, the unused rest fills with leftovers of other sizes at every rotation, and memory grows by a quarter.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    process::allow_open_files(arguments.sidecars + 200)?;
    // One thread, as both programs have.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build()?;
    runtime.block_on(async {
        match arguments.part {
            None => run::run(&arguments).await,
            Some(Part::Serve) => server::serve().await,
            Some(Part::Bare) => bare::serve().await,
            Some(Part::Sidecar) => fleet::one().await,
            Some(Part::Hostile) => hostile::attack().await,
        }
    })
}
