//! The command line. Pure; `main` reads it.

use crate::configuration::modules::Modules;
use api::{
    names::{LINE_TOKEN_FILE, directory, environment, port},
    node_settings::{SETTINGS_DIRECTORY, SETTINGS_FILE},
    valkey_version::ValkeyVersion,
};
use clap::{Args, Parser, Subcommand};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

/// The agent beside a Valkey server: it renders valkey.conf before the server starts, applies changed settings to the
/// running server, answers the pod's probes and hands a primary over before its pod stops.
#[derive(Debug, Parser)]
#[command(name = "valkey-sidecar", version = crate::version::VERSION)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the agent until SIGTERM, and then until Valkey has gone.
    Run(RunArguments),
    /// Wait until Valkey can be started beside a running agent: the gate that holds it back is there.
    Await(AwaitArguments),
    /// Print the valkey.conf that `run` would write now, and change nothing.
    Render(PodArguments),
}

/// What the pod tells about itself.
#[derive(Clone, Debug, Args)]
pub struct PodArguments {
    /// The settings all pods of the cluster share.
    #[arg(long, env = "VALKEY_SETTINGS", default_value_os_t = PathBuf::from(SETTINGS_DIRECTORY).join(SETTINGS_FILE))]
    pub settings: PathBuf,
    /// Valkey's data directory: dump.rdb, the append-only files, nodes.conf.
    #[arg(long, env = "VALKEY_DATA_DIR", default_value = directory::DATA)]
    pub data_dir: PathBuf,
    /// Where valkey.conf is written and Valkey's Unix socket appears; both containers see it.
    #[arg(long, env = "VALKEY_RUN_DIR", default_value = directory::RUN)]
    pub run_dir: PathBuf,
    /// The port Valkey serves clients on; its cluster bus is ten thousand above.
    // No variable: where a Service is named `valkey`, Kubernetes itself sets VALKEY_PORT to something else.
    #[arg(long, default_value_t = port::VALKEY as u16)]
    pub port: u16,
    /// Announced as the node's name.
    #[arg(long, env = environment::POD_NAME)]
    pub pod_name: String,
    /// Part of the announced host name.
    #[arg(long, env = environment::POD_NAMESPACE)]
    pub pod_namespace: String,
    /// Announced to clients and to the other nodes.
    #[arg(long, env = environment::POD_IP)]
    pub pod_ip: IpAddr,
    /// The pod's UID, which tells it apart from an earlier pod of the same name; without it there is no line to the operator.
    #[arg(long, env = environment::POD_UID)]
    pub pod_uid: Option<String>,
    /// The Kubernetes node, for the log.
    #[arg(long, env = environment::NODE_NAME)]
    pub node_name: Option<String>,
    /// Memory limit of the Valkey container in bytes; without it maxmemory is left alone.
    #[arg(long, env = environment::VALKEY_MEMORY_LIMIT, value_name = "BYTES")]
    pub memory_limit: Option<u64>,
    /// The version this pod's Valkey has; the settings' version counts only where this is absent.
    #[arg(long, env = environment::VALKEY_VERSION)]
    pub valkey_version: Option<ValkeyVersion>,
    /// The modules this pod's Valkey loads, as JSON: [{"path": "…", "args": ["…"]}].
    #[arg(long, env = environment::VALKEY_MODULES, value_name = "JSON")]
    pub modules: Option<Modules>,
}

impl PodArguments {
    pub fn socket(&self) -> PathBuf {
        self.run_dir.join("valkey.sock")
    }

    /// What Valkey is started with: a FIFO that leads to `conf` when the gate opens.
    pub fn gate(&self) -> PathBuf {
        gate(&self.run_dir)
    }

    /// The configuration, for Valkey and for people to read.
    pub fn conf(&self) -> PathBuf {
        self.run_dir.join("rendered.conf")
    }
}

pub fn gate(run_dir: &Path) -> PathBuf {
    run_dir.join("valkey.conf")
}

#[derive(Clone, Debug, Args)]
pub struct AwaitArguments {
    /// The directory that the agent and Valkey share.
    #[arg(long, env = "VALKEY_RUN_DIR", default_value = directory::RUN)]
    pub run_dir: PathBuf,
    /// Seconds after which it ends with an error.
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    pub deadline: Duration,
}

#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub pod: PodArguments,
    /// The certificate shown to the operator, its key and the trusted roots: tls.crt, tls.key, ca.crt.
    #[arg(long, env = "VALKEY_MTLS_DIR", default_value = directory::MTLS)]
    pub mtls_dir: PathBuf,
    /// The token that proves to the operator which pod this is.
    #[arg(long, env = "VALKEY_LINE_TOKEN", default_value_os_t = PathBuf::from(directory::LINE_TOKEN).join(LINE_TOKEN_FILE))]
    pub line_token: PathBuf,
    /// Where probes, metrics and status are answered [default: 0.0.0.0:8081, or [::]:8081 where the pod's IP is IPv6].
    #[arg(long, env = "VALKEY_HEALTH_ADDRESS")]
    pub health_address: Option<SocketAddr>,
    /// Seconds Valkey has to answer a probe before it counts as hung; keep it below the probes' timeoutSeconds.
    #[arg(long, env = "VALKEY_PROBE_DEADLINE", default_value = "2", value_parser = seconds, value_name = "SECONDS")]
    pub probe_deadline: Duration,
    /// Seconds a hand-over may take; keep it below the pod's terminationGracePeriodSeconds.
    #[arg(long, env = "VALKEY_HAND_OVER_DEADLINE", default_value = "25", value_parser = seconds, value_name = "SECONDS")]
    pub hand_over_deadline: Duration,
    /// Seconds to wait after SIGTERM for a Valkey that still runs.
    #[arg(long, env = "VALKEY_EXIT_DEADLINE", default_value = "25", value_parser = seconds, value_name = "SECONDS")]
    pub exit_deadline: Duration,
    /// Seconds without a running Valkey after which parameters that no server has accepted yet are left out of
    /// valkey.conf: one bad value must not keep Valkey from starting.
    #[arg(long, env = "VALKEY_START_PATIENCE", default_value = "30", value_parser = seconds, value_name = "SECONDS")]
    pub start_patience: Duration,
    /// Seconds a primary that did not stop in order waits for one of its replicas to take over, before it starts with the
    /// data it has; three times the cluster's node timeout.
    #[arg(long, env = "VALKEY_BOOT_PATIENCE", default_value = "15", value_parser = seconds, value_name = "SECONDS")]
    pub boot_patience: Duration,
    /// error, warn, info, debug or trace.
    #[arg(long, env = "VALKEY_LOG_LEVEL", default_value = "info")]
    pub log_level: tracing::level_filters::LevelFilter,
}

impl RunArguments {
    pub fn health_address(&self) -> SocketAddr {
        let any: IpAddr = match self.pod.pod_ip {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.health_address.unwrap_or(SocketAddr::new(any, port::HEALTH as u16))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number of seconds such as 2 or 0.5"))?;
    match Duration::try_from_secs_f64(number) {
        Ok(duration) if !duration.is_zero() && number <= 86_400.0 => Ok(duration),
        _ => Err(format!("{text} seconds is out of range: choose more than 0 and at most 86400")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_health_port_listens_in_the_pods_own_address_family() {
        for (ip, expected) in [("10.0.0.7", "0.0.0.0:8081"), ("fd00::7", "[::]:8081")] {
            let words = ["valkey-sidecar", "run", "--pod-name", "p", "--pod-namespace", "n", "--pod-ip", ip];
            let Command::Run(arguments) = Arguments::parse_from(words).command else { panic!("run is not run") };
            assert_eq!(arguments.health_address().to_string(), expected);
        }
    }

    #[test]
    fn only_a_positive_number_of_seconds_is_taken() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "1m", "NaN", "1e9", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
