//! The program `valkey-load`: reads the command line, runs a load or a single command, prints, exits.

mod arguments;

use anyhow::{Context, Result};
use arguments::{Arguments, CheckArguments, Command, Output, RunArguments, Target};
use clap::Parser;
use load::{Client, Load, Report, journal, slot};
use std::{process::ExitCode, time::Duration};
use tokio::signal::unix::{Signal, SignalKind, signal};
use valkey::Reply;

const DAMAGED: u8 = 1;
const UNKNOWN: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime.context("could not start").and_then(|runtime| runtime.block_on(execute(arguments.command)));
    result.unwrap_or_else(|error| {
        eprintln!("valkey-load: {error:#}");
        ExitCode::from(UNKNOWN)
    })
}

async fn execute(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(arguments) => run(&arguments).await,
        Command::Check(arguments) => check(&arguments).await,
        Command::Put { target, key, value } => {
            single(&target, &key, &["SET", &key, &value]).await?;
            println!("OK");
            Ok(ExitCode::SUCCESS)
        }
        Command::Get { target, key } => match single(&target, &key, &["GET", &key]).await? {
            Reply::Null => {
                eprintln!("valkey-load: there is no key {key}");
                Ok(ExitCode::from(DAMAGED))
            }
            value => {
                println!("{}", value.into_text());
                Ok(ExitCode::SUCCESS)
            }
        },
    }
}

async fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let mut signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let load = tokio::select! {
        load = Load::start(arguments.options()) => load?,
        () = either(&mut signals) => anyhow::bail!("ended before the first write"),
    };
    tokio::select! {
        () = elapse(arguments.duration) => {}
        () = either(&mut signals) => eprintln!("valkey-load: reading back; a second signal ends it without a report"),
    }
    tokio::select! {
        report = load.stop() => print(&report?, arguments.reading.output),
        () = either(&mut signals) => anyhow::bail!("ended before everything was read back"),
    }
}

async fn elapse(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

async fn either((interrupt, terminate): &mut (Signal, Signal)) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

async fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let memory = journal::read(&arguments.journal).context("--journal")?;
    let report = load::load::check(arguments.target.seeds.clone(), &memory, &arguments.options()).await?;
    print(&report, arguments.reading.output)
}

fn print(report: &Report, output: Output) -> Result<ExitCode> {
    match output {
        Output::Text => print!("{report}"),
        Output::Json => println!("{}", serde_json::to_string_pretty(report)?),
    }
    Ok(match (report.damage(), report.inconclusive()) {
        (Some(_), _) => ExitCode::from(DAMAGED),
        (None, Some(_)) => ExitCode::from(UNKNOWN),
        (None, None) => ExitCode::SUCCESS,
    })
}

async fn single(target: &Target, key: &str, command: &[&str]) -> Result<Reply> {
    let client = Client::new(target.seeds.clone(), target.timeout);
    client.refresh_until_covered(target.covered_within).await.context("--seed")?;
    Ok(client.send(slot::of_key(key), command).await?.reply)
}
