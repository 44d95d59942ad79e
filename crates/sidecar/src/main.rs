//! The sidecar's program: reads the command line, wires the parts, waits for the end.

mod agent;
mod arguments;
mod boot;
mod command;
mod configuration;
mod durable_file;
mod election;
mod ending;
mod handover;
mod health;
mod last_copy;
mod line;
mod logging;
mod process;
mod role;
mod settings;
mod slot_moves;
mod state;
mod stop_mark;
mod version;
mod volume;
mod voters;
mod withheld;

use agent::Agent;
use anyhow::Context;
use arguments::{Arguments, AwaitArguments, Command, PodArguments, RunArguments};
use clap::Parser;
use configuration::{
    data_folder::DataFolder,
    record::Record,
    render::{self, Inputs, Trust},
};
use election::Elections;
use handover::HandOver;
use health::{http, routes::Routes};
use line::{manager::LineManager, terminating, watch::Watch};
use process::ProcessMonitor;
use state::Shared;
use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::timeout,
};

/// How often the hook checks for the gate, which is there some milliseconds after the start.
const GATE_PACE: Duration = Duration::from_millis(5);
/// How long the sidecar's own end waits for the volume.
const NOTE_DEADLINE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => start(arguments),
        Command::Await(arguments) => await_gate(&arguments),
        Command::Render(pod) => print_conf(&pod),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("valkey-sidecar: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The pod's hook: the kubelet starts Valkey only after it.
fn await_gate(arguments: &AwaitArguments) -> anyhow::Result<()> {
    let (gate, until) = (arguments::gate(&arguments.run_dir), Instant::now() + arguments.deadline);
    while !boot::is_gate(&gate) {
        anyhow::ensure!(Instant::now() < until, "no gate at {} within {:?}", gate.display(), arguments.deadline);
        std::thread::sleep(GATE_PACE);
    }
    Ok(())
}

fn print_conf(pod: &PodArguments) -> anyhow::Result<()> {
    let settings = settings::read(&pod.settings)?;
    let version = pod.valkey_version.unwrap_or(settings.valkey_version);
    let (record, data) = (Record::load(&pod.data_dir), DataFolder::read(&pod.data_dir));
    let inputs = Inputs { pod, settings: &settings, version, record: &record, data, trust: Trust::Hopeful };
    print!("{}", render::conf(&inputs));
    Ok(())
}

fn start(arguments: RunArguments) -> anyhow::Result<()> {
    logging::start(arguments.log_level);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build()?;
    runtime.block_on(run(Arc::new(arguments)))
}

async fn run(arguments: Arc<RunArguments>) -> anyhow::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let address = arguments.health_address();
    let listener = TcpListener::bind(address).await.with_context(|| format!("could not listen on {address}"))?;
    let pod = &arguments.pod;
    tracing::info!(pod = %pod.pod_name, namespace = %pod.pod_namespace, node = pod.node_name, %address, "sidecar started");
    let shared = Shared::default();
    let notes = boot::StopNotes::new(pod.socket(), pod.data_dir.clone());
    let hand_over = Arc::new(HandOver::new(pod.socket(), notes.clone(), shared.clone(), arguments.hand_over_deadline));
    let monitor = ProcessMonitor::new(pod.socket());
    let process = monitor.watch();
    let routes = Routes { arguments: arguments.clone(), shared: shared.clone(), hand_over };
    tokio::spawn(http::serve(listener, move |path| routes.clone().answer(path)));
    tokio::spawn(Watch::new(arguments.clone(), shared.clone(), &process).run());
    tokio::spawn(boot::keep_attached(pod.data_dir.clone(), process.attached()));
    tokio::spawn(monitor.run());
    tokio::spawn(Elections { socket: pod.socket(), shared: shared.clone(), process: process.clone() }.run());
    let paths = boot::BootPaths { fifo: pod.gate(), conf: pod.conf(), data_dir: pod.data_dir.clone() };
    let (gate, patience) = (shared.gate.clone(), arguments.boot_patience);
    let version = pod.valkey_version;
    let line = LineManager::new(arguments.clone(), shared.clone(), process.clone());
    let (errors, shared_notes) = (boot::ErrorLog::default(), notes.clone());
    let guard = boot::BootGuard {
        paths,
        gate,
        shared: shared.clone(),
        process,
        notes: shared_notes,
        patience,
        version,
        errors,
    };
    tokio::spawn(guard.run());
    tokio::spawn(line.run());
    let agent = tokio::spawn(Agent::new(arguments.clone(), shared.clone()).run());
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
        ended = agent => anyhow::bail!("the agent's loop ended: {ended:?}"),
    }
    terminating::report(&shared);
    // The kubelet ends sidecars last; should it be otherwise, probes and the hand-over are answered to the end.
    let gone = ending::wait_for_valkey_to_go(&arguments.pod.socket(), arguments.exit_deadline).await;
    if gone && !matches!(timeout(NOTE_DEADLINE, notes.complete()).await, Ok(Ok(()))) {
        tracing::warn!("could not note that Valkey has stopped in order");
    }
    tracing::info!(valkey_gone = gone, "sidecar ends");
    Ok(())
}
