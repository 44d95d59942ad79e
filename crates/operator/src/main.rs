//! The program `valkey-operator`: reads the command line and runs the command.

use clap::Parser;
use operator::arguments::{Arguments, Command};
use operator::client::clients;
use operator::{install, logging, run};
use std::io::Write;
use std::process::ExitCode;

/// Thousands of connections come and go: this one gives their memory back, the system's keeps most of it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // To the log for machines, or plainly if there is no log yet.
            tracing::error!("{error:#}");
            if !tracing::event_enabled!(tracing::Level::ERROR) {
                eprintln!("valkey-operator: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: Arguments) -> anyhow::Result<()> {
    logging::start(&arguments.log)?;
    // One thread is plenty: the work is waiting for the API server, and each thread costs memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(execute(arguments))
}

async fn execute(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command.unwrap_or(Command::Run) {
        Command::Crd => Ok(std::io::stdout().write_all(install::print()?.as_bytes())?),
        Command::InstallCrds => Ok(install::install(&clients().await?.requests).await?),
        Command::Run => Ok(run::run(clients().await?, &arguments.run, run::stop_on_signal()).await?),
    }
}
