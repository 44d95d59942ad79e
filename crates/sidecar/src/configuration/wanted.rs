//! What the settings ask of this pod's Valkey version, sorted by how it gets into effect. Pure.

use super::{fixed, maximum_memory};
use crate::{arguments::PodArguments, election, stop_mark};
use api::{
    node_settings::NodeSettings,
    parameters::{self, Change, GROUPS, Group, is_name},
    valkey_version::ValkeyVersion,
};
use std::collections::{BTreeMap, BTreeSet};

pub type Values = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Changed on the running server.
    pub live: Values,
    /// Those of them that the sidecar chose, because the spec says nothing: every server takes them.
    pub chosen: BTreeSet<String>,
    /// The sidecar's own, set back on the running server when somebody changed them by hand.
    pub held: Values,
    /// Not known to us: changed on a running server that has them, and never in its file, with which another would not start.
    pub tried: Values,
    /// In effect from the next start on.
    pub restart: Values,
    /// Not for this server, with the reason.
    pub ignored: Values,
    /// Switched by a procedure of its own (`append_only`), never by a plain change.
    pub append_only: bool,
}

/// The groups of names that come from typed fields of the spec and are therefore welcome here.
const TYPED: [&str; 8] = [
    "save",
    "appendonly",
    "appendfsync",
    "auto-aof-rewrite-percentage",
    "auto-aof-rewrite-min-size",
    "repl-diskless-sync",
    "min-replicas-to-write",
    "min-replicas-max-lag",
];

/// Those of the fixed parameters that a running server lets its users change.
const HELD: [&str; 13] = [
    "port",
    "protected-mode",
    "shutdown-on-sigterm",
    "cluster-announce-ip",
    "cluster-announce-hostname",
    "cluster-announce-human-nodename",
    "cluster-allow-replica-migration",
    "cluster-manual-failover-timeout",
    "cluster-node-timeout",
    "cluster-replica-validity-factor",
    "repl-ping-replica-period",
    election::PARAMETER,
    stop_mark::PARAMETER,
];

impl Wanted {
    pub fn new(pod: &PodArguments, settings: &NodeSettings, version: ValkeyVersion) -> Self {
        let mut wanted = Wanted { append_only: settings.wants_append_only_file(), ..Default::default() };
        for (name, value) in settings.parameters.iter().filter(|(name, _)| *name != "appendonly") {
            wanted.sort(name, value, version);
        }
        for (name, value) in unless_said(pod) {
            if !wanted.live.contains_key(name) {
                wanted.live.insert(name.to_owned(), value);
                wanted.chosen.insert(name.to_owned());
            }
        }
        let ours = fixed::parameters(pod, settings, version).into_iter().filter(|(name, _)| HELD.contains(name));
        wanted.held = ours.map(|(name, value)| (name.to_owned(), value)).collect();
        wanted
    }

    /// The value by which this pod says whether it stops.
    pub fn hold_stop_mark(&mut self, value: &str) {
        self.held.insert(stop_mark::PARAMETER.to_owned(), value.to_owned());
    }

    /// Whether the replica stands for election.
    pub fn hold_consent(&mut self, value: &str) {
        self.held.insert(election::PARAMETER.to_owned(), value.to_owned());
    }

    fn sort(&mut self, name: &str, value: &str, version: ValkeyVersion) {
        let parameter = parameters::find(name);
        let name = parameter.and_then(|parameter| parameter.alias_of).unwrap_or(name);
        let facts = parameter.and_then(|parameter| parameter.facts(version));
        let (values, value) = match (owned(name), parameter, facts) {
            (Some(group), ..) => (&mut self.ignored, group.reason.to_owned()),
            (None, None, _) if !is_name(name) => (&mut self.ignored, "no name of a parameter".to_owned()),
            (None, None, _) => (&mut self.tried, value.to_owned()),
            (None, Some(_), None) => (&mut self.ignored, format!("Valkey {version} does not know it")),
            (None, Some(_), Some(facts)) if facts.change == Change::Live => (&mut self.live, value.to_owned()),
            (None, Some(_), Some(_)) => (&mut self.restart, value.to_owned()),
        };
        values.insert(name.to_owned(), value);
    }
}

/// What the sidecar chooses as long as the spec says nothing.
fn unless_said(pod: &PodArguments) -> Vec<(&'static str, String)> {
    // A shard that is lost must not stop the others.
    let coverage = ("cluster-require-full-coverage", "no".to_owned());
    let maximum = pod.memory_limit.map(|limit| ("maxmemory", maximum_memory::from_limit(limit).to_string()));
    [coverage].into_iter().chain(maximum).collect()
}

fn owned(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.holds(name)).filter(|_| !TYPED.contains(&name))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::PathBuf;

    pub(crate) fn pod() -> PodArguments {
        PodArguments {
            settings: PathBuf::from("/etc/valkey-operator/settings.json"),
            data_dir: "/data".into(),
            run_dir: "/run/valkey".into(),
            port: 6379,
            pod_name: "poc-0".into(),
            pod_namespace: "default".into(),
            pod_ip: [10, 0, 0, 7].into(),
            pod_uid: None,
            node_name: None,
            memory_limit: None,
            valkey_version: None,
            modules: None,
        }
    }

    pub(crate) fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    pub(crate) fn settings(parameters: &[(&str, &str)]) -> NodeSettings {
        NodeSettings {
            settings_version: 1,
            cluster: "poc".into(),
            namespace: "default".into(),
            headless_service: "poc-headless".into(),
            valkey_version: version("9.1.2"),
            master_count: 3,
            replicas_per_master: 1,
            persistent_volume: true,
            parameters: values(parameters),
            cluster_uid: None,
            line: None,
        }
    }

    pub(crate) fn version(text: &str) -> ValkeyVersion {
        ValkeyVersion::from_tag(text).unwrap()
    }

    fn wanted(parameters: &[(&str, &str)], on: &str) -> Wanted {
        Wanted::new(&pod(), &settings(parameters), version(on))
    }

    /// Those that somebody asked for.
    fn asked_for(wanted: &Wanted) -> Values {
        let mut live = wanted.live.clone();
        live.remove("cluster-require-full-coverage");
        live
    }

    #[test]
    fn the_same_parameter_is_live_on_one_version_and_waits_for_a_restart_on_the_other() {
        assert_eq!(wanted(&[("io-threads", "2")], "8.1").restart, values(&[("io-threads", "2")]));
        assert_eq!(asked_for(&wanted(&[("io-threads", "2")], "9.1")), values(&[("io-threads", "2")]));
    }

    #[test]
    fn what_this_version_does_not_know_is_left_out_because_it_would_not_start() {
        let old = wanted(&[("mptcp", "yes"), ("hz", "20")], "8.1");
        assert_eq!(asked_for(&old), values(&[("hz", "20")]));
        assert!(old.ignored["mptcp"].contains("8.1"));
        assert_eq!(wanted(&[("mptcp", "yes")], "9.1").restart, values(&[("mptcp", "yes")]));
    }

    #[test]
    fn what_is_ours_or_no_name_is_ignored_with_a_reason_and_what_nobody_knows_is_tried() {
        let given = [("port", "1"), ("cluster-enabled", "no"), ("PORT", "1"), ("replica-priority", "0"), ("a.b", "c")];
        let wanted = wanted(&given, "9.1");
        assert_eq!(wanted.ignored.keys().collect::<Vec<_>>(), ["PORT", "cluster-enabled", "port", "replica-priority"]);
        assert!(asked_for(&wanted).is_empty() && wanted.restart.is_empty());
        assert_eq!(wanted.tried, values(&[("a.b", "c")]));
    }

    #[test]
    fn persistence_and_replication_come_through_and_append_only_goes_its_own_way() {
        let wanted = wanted(&[("appendonly", "yes"), ("save", ""), ("min-replicas-to-write", "1")], "9.1");
        assert!(wanted.append_only);
        assert_eq!(asked_for(&wanted), values(&[("save", ""), ("min-replicas-to-write", "1")]));
    }

    #[test]
    fn a_lost_shard_stops_the_others_only_where_the_user_says_so() {
        let coverage = |parameters: &[(&str, &str)]| {
            ["8.1", "9.1"].map(|version| wanted(parameters, version).live["cluster-require-full-coverage"].clone())
        };
        assert_eq!(coverage(&[]), ["no", "no"]);
        assert_eq!(coverage(&[("cluster-require-full-coverage", "yes")]), ["yes", "yes"]);
        assert!(wanted(&[("cluster-allow-reads-when-down", "yes")], "8.1").ignored.is_empty());
    }

    #[test]
    fn maxmemory_comes_from_the_limit_unless_the_user_set_it() {
        let pod = PodArguments { memory_limit: Some(1 << 30), ..pod() };
        let of = |parameters| Wanted::new(&pod, &settings(parameters), version("9.1")).live["maxmemory"].clone();
        assert_eq!(of(&[]), (768 << 20).to_string());
        assert_eq!(of(&[("maxmemory", "100mb")]), "100mb");
        assert!(!wanted(&[], "9.1").live.contains_key("maxmemory"));
    }
}
