//! The command line. Every flag can also be given as an environment variable; `--help` is the reference.

use crate::identity_choice::{IdentityChoice, IdentitySource, InvalidChoice};
use api::duration::Duration;
use api::names;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use pki::TrustDomain;
use std::net::{IpAddr, SocketAddr};
use workload_api::Endpoint;

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
    /// Where sidecars connect
    #[arg(long, env = "VALKEY_OPERATOR_LINE_ADDRESS", default_value = "0.0.0.0:8443", global = true)]
    pub line_address: SocketAddr,
    /// Where sidecars are told to connect, host:port, separated by commas; by default the Service valkey-operator-line of the
    /// operator's own namespace
    #[arg(long, env = "VALKEY_OPERATOR_LINE_ADVERTISE", value_delimiter = ',', global = true)]
    pub line_advertise: Vec<String>,
    /// How often a sidecar says that all is well
    #[arg(long, env = "VALKEY_OPERATOR_HEARTBEAT_INTERVAL", default_value = "60s", global = true)]
    pub heartbeat_interval: Duration,
    /// Where the certificates of the operator and its sidecars come from
    #[arg(long, env = "VALKEY_OPERATOR_IDENTITY_SOURCE", value_enum, default_value_t = IdentitySource::BuiltIn, global = true)]
    pub identity_source: IdentitySource,
    /// The Workload API's socket, unix:///…; sidecars find theirs at the same path
    #[arg(long, env = workload_api::ENVIRONMENT, global = true)]
    pub workload_api_socket: Option<Endpoint>,
    /// The one trust domain of all identities from the Workload API; without it each namespace is one
    #[arg(long, env = "VALKEY_OPERATOR_TRUST_DOMAIN", global = true)]
    pub trust_domain: Option<TrustDomain>,
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
    /// The address of this pod, which the other replicas name as the leader's
    #[arg(long, env = "POD_IP", global = true, hide = true)]
    pub pod_ip: Option<IpAddr>,
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

    pub fn identity(&self) -> Result<IdentityChoice, InvalidChoice> {
        let (socket, trust_domain) = (self.workload_api_socket.as_ref(), self.trust_domain.as_ref());
        IdentityChoice::new(self.identity_source, socket, trust_domain)
    }

    /// Where sidecars are told to connect.
    pub fn advertised(&self, own_namespace: &str) -> Vec<String> {
        let named = self.line_advertise.iter().map(|address| address.trim()).filter(|address| !address.is_empty());
        let named: Vec<_> = named.map(str::to_owned).collect();
        if named.is_empty() {
            return vec![format!("{}.{own_namespace}.svc:{}", names::LINE_SERVICE, names::port::LINE)];
        }
        named
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
    fn sidecars_are_told_the_service_of_the_operators_namespace_unless_told_otherwise() {
        assert_eq!(parse(&[]).run.advertised("system"), ["valkey-operator-line.system.svc:8443"]);
        let two = ["--line-advertise", "a:1, b:2"];
        assert_eq!(parse(&two).run.advertised("system"), ["a:1", "b:2"]);
    }

    #[test]
    fn flags_may_stand_before_or_behind_the_command() {
        assert_eq!(parse(&["install-crds", "--log-format", "json"]).log.log_format, LogFormat::Json);
        assert!(!parse(&["--leader-election", "false", "run"]).run.leader_election);
    }
}
