//! `testbed`: a real multi-node Kubernetes on one Linux machine. See docs/testbed.md.

mod addresses;
mod apt;
mod cache;
mod cgroups;
mod command;
mod control;
mod control_plane;
mod delegation;
mod dns;
mod hierarchies;
mod host;
mod images;
mod init;
mod interrupt;
mod journal;
mod layout;
mod lifecycle;
mod network;
mod node;
mod parts;
mod patience;
mod pki;
mod pod;
mod progress;
mod show;
mod space;
mod supervisor;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

use control::Request;
use layout::{Dir, Testbed};
use progress::Progress;

/// A real multi-node Kubernetes on this machine: control plane and nodes are processes in network namespaces.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// Which testbed; several can run side by side.
    #[arg(long, global = true, default_value = "main", env = "TESTBED_NAME")]
    name: String,
    /// Wait this many times longer than usual before something counts as stuck; for slow machines.
    #[arg(long, global = true, default_value_t = 1, env = patience::VARIABLE, value_parser = clap::value_parser!(u32).range(1..=100))]
    patience: u32,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start a testbed and wait until its nodes are Ready and DNS answers. What is missing is installed and built first.
    Up {
        /// How many nodes, from 1 to 20.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(layout::MAX_NODES)))]
        nodes: u8,
        /// An optional part to have in bin/ as well; may be given several times.
        #[arg(long = "with", value_name = "PART", value_parser = clap::builder::PossibleValuesParser::new(parts::OPTIONAL_NAMES))]
        with: Vec<String>,
    },
    /// Install, build and unpack everything that `up` needs, and start nothing.
    Prepare {
        /// An optional part to make ready as well; may be given several times.
        #[arg(long = "with", value_name = "PART", value_parser = clap::builder::PossibleValuesParser::new(parts::OPTIONAL_NAMES))]
        with: Vec<String>,
    },
    /// Install the few tools that testbeds, images and tests need from the machine's package manager.
    Tools,
    /// Make an optional part ready without a testbed and print where its programs are.
    Part {
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(parts::OPTIONAL_NAMES))]
        part: String,
    },
    /// Take a testbed down and remove everything of it.
    Down,
    /// Show the parts and nodes.
    Status {
        #[arg(long)]
        json: bool,
    },
    /// Print the path of the administrator's kubeconfig.
    Kubeconfig,
    /// Bring image archives onto all nodes.
    Load {
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// Show the end of a part's log; without a part, list the parts that have one.
    Logs {
        part: Option<String>,
        /// How many lines.
        #[arg(short = 'n', long, default_value_t = 50)]
        lines: usize,
    },
    /// Break a node, or mend it.
    Node {
        #[command(subcommand)]
        verb: NodeVerb,
    },
    /// Break a pod.
    Pod {
        #[command(subcommand)]
        verb: PodVerb,
    },
    #[command(hide = true)]
    Init,
    #[command(hide = true)]
    Supervise,
}

#[derive(Subcommand)]
enum NodeVerb {
    /// Like a power cut: the kubelet, the container runtime and all pods die at once.
    Stop { node: String },
    /// Power on again.
    Start { node: String },
    /// Take the node off the network; packets to and from it vanish.
    Cut { node: String },
    /// Put it back.
    Heal { node: String },
}

#[derive(Subcommand)]
enum PodVerb {
    /// Send a container's main process a signal from outside.
    Kill {
        /// <namespace>/<pod>
        pod: String,
        /// Which container; the first by default.
        #[arg(long)]
        container: Option<String>,
        /// kill, or stop and later cont.
        #[arg(long, value_enum, default_value_t)]
        signal: pod::Signal,
    },
}

fn main() -> ExitCode {
    let outcome = run(Cli::parse());
    interrupt::await_end_if_interrupted();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let progress = Progress::start();
    patience::set(cli.patience);
    layout::check_name(&cli.name)?;
    let name = cli.name.as_str();
    if matches!(cli.verb, Verb::Prepare { .. } | Verb::Tools | Verb::Part { .. }) {
        interrupt::clean_up_with(|| Ok(()))?;
    }
    match cli.verb {
        Verb::Up { nodes, with } => {
            lifecycle::up(name, nodes, &with, &progress)?;
            progress.say(&format!("up: export KUBECONFIG={}", Dir::of(name).kubeconfig().display()));
            Ok(())
        }
        Verb::Prepare { with } => lifecycle::prepare(&with, &progress),
        Verb::Tools => host::install_tools(&progress),
        Verb::Part { part } => {
            parts::optional(&part, &progress)?.iter().for_each(|(_, path)| println!("{}", path.display()));
            Ok(())
        }
        Verb::Down => lifecycle::down(name, &progress),
        Verb::Status { json } => show::status(&running(name)?, json),
        Verb::Kubeconfig => {
            println!("{}", running(name)?.dir().kubeconfig().display());
            Ok(())
        }
        Verb::Load { archives } => images::load(&running(name)?, &archives, |what| progress.say(what)),
        Verb::Logs { part, lines } => show::logs(&Dir::of(name), part.as_deref(), lines),
        Verb::Node { verb } => break_node(name, verb, &progress),
        Verb::Pod { verb: PodVerb::Kill { pod, container, signal } } => {
            pod::kill(&running(name)?, &pod, container.as_deref(), signal, &progress)
        }
        Verb::Init => init::init(name),
        Verb::Supervise => init::supervise(name),
    }
}

fn break_node(name: &str, verb: NodeVerb, progress: &Progress) -> Result<()> {
    let (request, node, done) = match verb {
        NodeVerb::Stop { node } => (Request::StopNode(node.clone()), node, "is stopped"),
        NodeVerb::Start { node } => (Request::StartNode(node.clone()), node, "is started"),
        NodeVerb::Cut { node } => (Request::CutNode(node.clone()), node, "is cut off"),
        NodeVerb::Heal { node } => (Request::HealNode(node.clone()), node, "is back on the network"),
    };
    control::ask(&running(name)?.dir(), &request)?;
    progress.say(&format!("{node} {done}"));
    Ok(())
}

/// The testbed, if it is up.
fn running(name: &str) -> Result<Testbed> {
    let others = layout::all().into_iter().filter(|other| lifecycle::alive(other)).collect::<Vec<_>>();
    let hint = if others.is_empty() {
        "start it with `make testbed-up`".into()
    } else {
        format!("running are: {}", others.join(", "))
    };
    ensure!(lifecycle::alive(name), "testbed {name} is not running; {hint}");
    Testbed::read(name).context("the testbed is only just starting")
}
