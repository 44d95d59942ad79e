//! The parameters that are the sidecar's: who this pod is, where things lie, how it stops. Pure.

use crate::{arguments::PodArguments, election, stop_mark};
use api::{
    node_settings::{NODE_TIMEOUT, NodeSettings},
    valkey_version::ValkeyVersion,
};
use sidecar_rules::handover::FAILOVER_TIMEOUT;

pub type Pairs = Vec<(&'static str, String)>;

/// In the order they stand in valkey.conf.
pub fn parameters(pod: &PodArguments, settings: &NodeSettings, version: ValkeyVersion) -> Pairs {
    let mut pairs = place(pod);
    pairs.extend(cluster(pod, settings));
    // From 9.0 on a primary that gets SIGTERM without a hand-over before it still passes its role on; 8.1 refuses the word.
    if version.at_least(9, 0) {
        pairs.push(("shutdown-on-sigterm", "failover".into()));
    }
    pairs
}

fn place(pod: &PodArguments) -> Pairs {
    vec![
        ("port", pod.port.to_string()),
        // There are no users yet: without this Valkey would serve only its own pod.
        ("protected-mode", "no".into()),
        ("unixsocket", pod.socket().display().to_string()),
        ("unixsocketperm", "770".into()),
        ("dir", pod.data_dir.display().to_string()),
        ("dbfilename", "dump.rdb".into()),
        ("appenddirname", "appendonlydir".into()),
        ("daemonize", "no".into()),
        ("logfile", String::new()),
    ]
}

fn cluster(pod: &PodArguments, settings: &NodeSettings) -> Pairs {
    let hostname = format!("{}.{}.{}.svc", pod.pod_name, settings.headless_service, pod.pod_namespace);
    vec![
        ("cluster-enabled", "yes".into()),
        ("cluster-config-file", "nodes.conf".into()),
        ("cluster-announce-ip", pod.pod_ip.to_string()),
        ("cluster-announce-hostname", hostname),
        ("cluster-announce-human-nodename", pod.pod_name.clone()),
        // Which pod backs which shard is the operator's to decide.
        ("cluster-allow-replica-migration", "no".into()),
        ("cluster-node-timeout", NODE_TIMEOUT.as_millis().to_string()),
        // Valkey elects by itself only whose link was lost less than two node timeouts and a ping ago: see docs/boot.md.
        ("cluster-replica-validity-factor", "1".into()),
        ("repl-ping-replica-period", "1".into()),
        // Only with the sidecar's consent.
        (election::PARAMETER, election::STAY.into()),
        // While the pod stops, `stop_mark` says otherwise.
        (stop_mark::PARAMETER, stop_mark::NOT_STOPPING.into()),
        // How long a hand-over may hold clients back.
        ("cluster-manual-failover-timeout", FAILOVER_TIMEOUT.as_millis().to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::wanted::tests::{pod, settings};

    #[test]
    fn the_word_failover_is_only_for_versions_that_know_it() {
        for (version, expected) in [("8.1", false), ("9.0", true), ("9.1.2", true)] {
            let pairs = parameters(&pod(), &settings(&[]), ValkeyVersion::from_tag(version).unwrap());
            assert_eq!(pairs.iter().any(|(name, _)| *name == "shutdown-on-sigterm"), expected, "{version}");
        }
    }

    #[test]
    fn each_fixed_parameter_is_refused_in_the_users_config() {
        for (name, _) in parameters(&pod(), &settings(&[]), ValkeyVersion::from_tag("9.1").unwrap()) {
            assert!(api::parameters::refusal(name).is_some(), "{name}");
        }
    }
}
