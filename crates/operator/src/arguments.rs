//! The command line. Every flag can also be given as an environment variable; `--help` is the reference.

use api::duration::Duration;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;

/// Runs Valkey on Kubernetes: turns each ValkeyCluster into pods and keeps them so.
#[derive(Debug, Parser)]
#[command(name = "valkey-operator", version, max_term_width = 110)]
#[command(
    after_help = "Without a command the operator runs. It needs a kubeconfig (KUBECONFIG) or a Kubernetes service account."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunArguments,
    #[command(flatten)]
    pub log: LogArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Watch ValkeyClusters and act (the default)
    Run,
    /// Print the CustomResourceDefinitions as YAML
    Crd,
    /// Create or upgrade the CustomResourceDefinitions; stops if one of the same name is somebody else's
    InstallCrds,
}

#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// Namespaces to watch, separated by commas; empty means all
    #[arg(long, env = "VALKEY_OPERATOR_WATCH_NAMESPACES", value_delimiter = ',', global = true)]
    pub watch_namespaces: Vec<String>,
    /// Run only while holding a Lease, so that several operators can stand by
    #[arg(long, env = "VALKEY_OPERATOR_LEADER_ELECTION", default_value_t = true, action = ArgAction::Set, global = true)]
    pub leader_election: bool,
    /// Name of the Lease
    #[arg(long, env = "VALKEY_OPERATOR_LEASE_NAME", default_value = "valkey-operator", global = true)]
    pub lease_name: String,
    /// Namespace of the Lease; by default the operator's own
    #[arg(long, env = "VALKEY_OPERATOR_LEASE_NAMESPACE", global = true)]
    pub lease_namespace: Option<String>,
    /// How long a Lease is valid without being renewed
    #[arg(long, env = "VALKEY_OPERATOR_LEASE_DURATION", default_value = "15s", global = true)]
    pub lease_duration: Duration,
    /// How often the Lease is renewed, or tried for
    #[arg(long, env = "VALKEY_OPERATOR_LEASE_RENEW_INTERVAL", default_value = "4s", global = true)]
    pub lease_renew_interval: Duration,
    /// Where /healthz, /readyz and /metrics answer
    #[arg(long, env = "VALKEY_OPERATOR_LISTEN_ADDRESS", default_value = "0.0.0.0:8080", global = true)]
    pub listen_address: SocketAddr,
    /// Sidecar image for clusters that name none
    #[arg(long, env = "VALKEY_OPERATOR_SIDECAR_IMAGE", default_value = concat!("ghcr.io/valkey-operator/sidecar:v", env!("CARGO_PKG_VERSION")), global = true)]
    pub sidecar_image: String,
    /// How often every cluster is looked at even if nothing happened
    #[arg(long, env = "VALKEY_OPERATOR_RESYNC", default_value = "10m", global = true)]
    pub resync: Duration,
    /// This process's name as the holder of the Lease; by default the host name with a random part
    #[arg(long, env = "POD_NAME", global = true, hide = true)]
    pub pod_name: Option<String>,
    /// The namespace this process runs in
    #[arg(long, env = "POD_NAMESPACE", global = true, hide = true)]
    pub pod_namespace: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct LogArguments {
    /// How log lines look
    #[arg(long, env = "VALKEY_OPERATOR_LOG_FORMAT", value_enum, default_value_t = LogFormat::Auto, global = true)]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or by module as in "info,kube=debug"
    #[arg(long, env = "VALKEY_OPERATOR_LOG_FILTER", default_value = "info,kube_runtime=warn", global = true)]
    pub log_filter: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise
    Auto,
    Json,
    Text,
}

impl RunArguments {
    /// The namespaces to watch; None stands for all of them.
    pub fn scopes(&self) -> Vec<Option<String>> {
        let named: Vec<_> =
            self.watch_namespaces.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
        if named.is_empty() {
            return vec![None];
        }
        named.into_iter().map(|name| Some(name.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(arguments: &[&str]) -> Arguments {
        Arguments::try_parse_from(["valkey-operator"].iter().chain(arguments)).unwrap()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        for argument in Arguments::command().get_arguments().filter(|argument| argument.get_long().is_some()) {
            let named_by_clap = ["help", "version"].contains(&argument.get_id().as_str());
            assert!(named_by_clap || argument.get_env().is_some(), "{} has none", argument.get_id());
        }
    }

    #[test]
    fn no_namespace_means_all_of_them() {
        assert_eq!(parse(&[]).run.scopes(), [None]);
        assert_eq!(parse(&["--watch-namespaces", ""]).run.scopes(), [None]);
        let two = [Some("a".to_owned()), Some("b".to_owned())];
        assert_eq!(parse(&["--watch-namespaces", "a, b,"]).run.scopes(), two);
    }

    #[test]
    fn flags_may_stand_before_or_behind_the_command() {
        assert_eq!(parse(&["install-crds", "--log-format", "json"]).log.log_format, LogFormat::Json);
        assert!(!parse(&["--leader-election", "false", "run"]).run.leader_election);
    }
}
