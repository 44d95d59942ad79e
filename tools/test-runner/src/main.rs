//! Runs the tests of the project, all stages beside each other as far as they can be, each test in a process of its own. Nothing that
//! fails keeps the rest from being run; in the end one account names what failed, where its evidence is, and what took longest.

mod end_to_end;
mod needs;
mod outcome;
mod output;
mod pool;
mod process;
mod script;
mod session;
mod stages;
mod suites;
mod testbed;
mod times;

use anyhow::{Context, Result};
use clap::Parser;
use session::Session;
use stages::Stage;
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs the tests of the project
#[derive(Parser)]
struct Arguments {
    /// Which stages to run; all of them when none is named
    stages: Vec<Stage>,
    /// Run what only repeats: tests marked #[ignore], and long scripts
    #[arg(long)]
    long: bool,
}

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::parse();
    if arguments.stages.is_empty() {
        arguments.stages = if arguments.long { stages::LONG.to_vec() } else { stages::USUAL.to_vec() };
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("start the async runtime")?.block_on(conduct(arguments))
}

async fn conduct(arguments: Arguments) -> Result<ExitCode> {
    let session = Session::open()?;
    let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let running = stages::run(&session, &arguments.stages, arguments.long);
    tokio::select! {
        () = running => {}
        () = session.tell_progress() => {}
        () = listen(&session, interrupt, terminate) => {}
    }
    Ok(if session.close()? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Passes Ctrl-C on to everything that runs; ends only by being dropped.
async fn listen(session: &Session, mut interrupt: Signal, mut terminate: Signal) {
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        session.say("interrupted: what runs is asked to end");
        session.interrupted.send_replace(true);
    }
}
