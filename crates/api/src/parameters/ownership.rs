//! The parameters `spec.config` may not hold, and why. Pure; the CEL rules and the operator's own check are both made from this.

use super::{find, is_name};

/// Parameters refused for one reason.
#[derive(Debug)]
pub struct Group {
    /// Exact names.
    pub names: &'static [&'static str],
    /// All names that begin so.
    pub prefixes: &'static [&'static str],
    /// Names that begin so and are the user's all the same.
    pub free: &'static [&'static str],
    /// Ends the sentence "… cannot be set in spec.config: ".
    pub reason: &'static str,
}

/// Every reason, most specific first.
pub const GROUPS: &[Group] = &[
    Group {
        names: &["save", "appendonly", "appendfsync", "auto-aof-rewrite-percentage", "auto-aof-rewrite-min-size"],
        prefixes: &[],
        free: &[],
        reason: "persistence has fields of its own, use spec.backup.database and spec.backup.aof",
    },
    Group {
        names: &["repl-diskless-sync", "min-replicas-to-write", "min-replicas-max-lag"],
        prefixes: &[],
        free: &[],
        reason: "replication has fields of its own, use spec.replication",
    },
    Group {
        names: &[],
        prefixes: &["tls-"],
        free: &[],
        reason: "how the ports do TLS is not set through parameters, leave it out",
    },
    Group {
        names: &[
            "aclfile",
            "user",
            "requirepass",
            "primaryuser",
            "primaryauth",
            "masteruser",
            "masterauth",
            "protected-mode",
        ],
        prefixes: &[],
        free: &[],
        reason: "users and passwords do not belong in a parameter that everybody can read, leave it out",
    },
    Group {
        names: &[
            "port",
            "bind",
            "bind-source-addr",
            "unixsocket",
            "replica-announce-ip",
            "replica-announce-port",
            "replica-announced",
            "slave-announce-ip",
            "slave-announce-port",
            "availability-zone",
        ],
        prefixes: &["cluster-", "unixsocket", "rdma-"],
        // Whether a cluster that lost a shard goes on with the others is for its users to say.
        free: &["cluster-require-full-coverage", "cluster-allow-reads-when-down"],
        reason: "the operator sets it for each pod so that the nodes find each other, leave it out",
    },
    Group {
        names: &["replicaof", "slaveof", "databases"],
        prefixes: &[],
        free: &[],
        reason: "the operator decides which pod is a primary and what it holds, leave it out",
    },
    Group {
        names: &["replica-priority", "slave-priority"],
        prefixes: &[],
        free: &[],
        reason: "no election of a cluster reads it, and pods tell each other by it that they stop, leave it out",
    },
    Group {
        names: &["repl-ping-replica-period", "repl-ping-slave-period"],
        prefixes: &[],
        free: &[],
        reason: "how old a copy may be that a cluster elects depends on it, leave it out",
    },
    Group {
        names: &["dir", "dbfilename", "appenddirname", "appendfilename"],
        prefixes: &[],
        free: &[],
        reason: "data lives at a fixed place on the pod's volume, leave it out",
    },
    Group {
        names: &[
            "daemonize",
            "supervised",
            "pidfile",
            "logfile",
            "shutdown-on-sigterm",
            "shutdown-on-sigint",
            "shutdown-timeout",
        ],
        prefixes: &["syslog-"],
        free: &[],
        reason: "the pod's life cycle and its log depend on it, leave it out",
    },
    Group {
        names: &[
            "include",
            "loadmodule",
            "rename-command",
            "enable-debug-command",
            "enable-module-command",
            "enable-protected-configs",
        ],
        prefixes: &[],
        free: &[],
        reason: "it would let clients or files change what the operator relies on, leave it out",
    },
    Group {
        names: &["oom-score-adj", "oom-score-adj-values", "socket-mark-id"],
        prefixes: &[],
        free: &[],
        reason: "it needs a capability that these pods do not have, leave it out",
    },
];

impl Group {
    pub fn holds(&self, name: &str) -> bool {
        self.names.contains(&name) || self.covers(name)
    }

    /// Whether a prefix stands for it.
    pub fn covers(&self, name: &str) -> bool {
        !self.free.contains(&name) && self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// Why `spec.config` may not hold this parameter, as a sentence with the way out; None when it may.
pub fn refusal(name: &str) -> Option<String> {
    if let Some(group) = GROUPS.iter().find(|group| group.holds(name)) {
        return Some(format!("{name} cannot be set in spec.config: {}", group.reason));
    }
    if !is_name(name) {
        return Some("the name of a parameter holds only a-z, 0-9, '-', '_' and '.': write it so".to_owned());
    }
    // One that nobody here knows may be a newer Valkey's or a module's.
    find(name)?.alias_of.map(|other| format!("{name} is another spelling: use {other}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{Change, all};

    /// Directives of the configuration file that CONFIG GET does not list.
    const FILE_ONLY: [&str; 4] = ["user", "include", "loadmodule", "rename-command"];

    #[test]
    fn every_owned_name_exists_so_that_no_spelling_mistake_opens_a_gap() {
        for name in GROUPS.iter().flat_map(|group| group.names) {
            assert!(find(name).is_some() || FILE_ONLY.contains(name), "{name}");
        }
        for prefix in GROUPS.iter().flat_map(|group| group.prefixes) {
            assert!(all().iter().any(|parameter| parameter.name.starts_with(prefix)), "{prefix}");
        }
        for group in GROUPS {
            let excepted = |name: &&str| find(name).is_some() && group.prefixes.iter().any(|it| name.starts_with(it));
            assert!(group.free.iter().all(excepted), "{:?}", group.free);
        }
    }

    #[test]
    fn what_is_ours_is_refused_with_the_field_to_use_or_the_reason() {
        let cases = [
            ("port", "find each other"),
            ("cluster-node-timeout", "find each other"),
            ("tls-cert-file", "TLS"),
            ("appendonly", "spec.backup.aof"),
            ("min-replicas-to-write", "spec.replication"),
            ("masterauth", "passwords"),
            ("replica-priority", "that they stop"),
            ("slave-priority", "that they stop"),
            ("repl-ping-replica-period", "how old a copy"),
            ("repl-ping-slave-period", "how old a copy"),
            ("slave-read-only", "use replica-read-only"),
        ];
        for (name, part) in cases {
            let sentence = refusal(name).unwrap();
            assert!(sentence.starts_with(name) && sentence.contains(part), "{sentence}");
        }
    }

    #[test]
    fn ordinary_parameters_are_free_and_unknown_ones_too() {
        for name in [
            "maxmemroy",
            "search.timeout",
            "maxmemory",
            "maxmemory-policy",
            "hz",
            "io-threads",
            "notify-keyspace-events",
            "mptcp",
        ] {
            assert_eq!(refusal(name), None);
        }
        for name in ["cluster-require-full-coverage", "cluster-allow-reads-when-down"] {
            assert_eq!(refusal(name), None);
        }
    }

    #[test]
    fn a_protected_parameter_is_never_free() {
        let is_protected =
            |facts: Option<crate::parameters::Facts>| facts.is_some_and(|f| f.change == Change::Protected);
        for parameter in all().iter().filter(|p| is_protected(p.in_8_1) || is_protected(p.in_9_1)) {
            assert!(refusal(parameter.name).is_some(), "{}", parameter.name);
        }
    }
}
