//! What every sidecar of the cluster is told. Pure; ends up in the ConfigMap.

use crate::validated::ValidatedCluster;
use api::cluster::effective::{Backup, EffectiveSpec, Replication};
use api::names;
use api::node_settings::{NodeSettings, SETTINGS_VERSION};
use std::collections::BTreeMap;

pub fn node_settings(cluster: &ValidatedCluster) -> NodeSettings {
    NodeSettings {
        settings_version: SETTINGS_VERSION,
        cluster: cluster.name.clone(),
        namespace: cluster.namespace.clone(),
        headless_service: names::headless_service(&cluster.name),
        valkey_version: cluster.version,
        master_count: cluster.master_count,
        replicas_per_master: cluster.replicas_per_master,
        persistent_volume: cluster.storage.is_some(),
        parameters: cluster.parameters.clone(),
        cluster_uid: Some(cluster.uid.clone()),
        line: cluster.line.clone(),
    }
}

/// The file as the sidecars read it.
pub fn text(cluster: &ValidatedCluster) -> String {
    serde_json::to_string_pretty(&node_settings(cluster)).unwrap_or_default() + "\n"
}

/// The fields of the spec in Valkey's own words, together with the user's `config`. They have no name in common:
/// `config` is refused where a field exists.
pub fn parameters(spec: &EffectiveSpec) -> BTreeMap<String, String> {
    let mut parameters = defaults();
    parameters.extend(spec.config.clone());
    let fields = persistence(&spec.backup).into_iter().chain(replication(&spec.replication));
    parameters.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    parameters
}

/// Where Valkey's own default serves a cluster badly; the user's `config` wins.
fn defaults() -> BTreeMap<String, String> {
    [
        // Valkey waits five seconds for more replicas to come before it starts a copy; ours have one each, more often than not.
        ("repl-diskless-sync-delay".to_owned(), "0".to_owned()),
        // An empty replica has nothing to lose, so it need not keep its first copy on the disk before it takes it in: from 9.0
        // on that costs it a second.
        ("repl-diskless-load".to_owned(), "on-empty-db".to_owned()),
    ]
    .into()
}

fn persistence(backup: &Backup) -> Vec<(&'static str, String)> {
    let (database, aof) = (&backup.database, &backup.aof);
    vec![
        ("save", if database.enabled { database.save.clone() } else { String::new() }),
        ("appendonly", yes_or_no(aof.enabled)),
        ("appendfsync", aof.appendfsync.as_str().to_owned()),
        ("auto-aof-rewrite-percentage", aof.auto_aof_rewrite_percentage.to_string()),
        ("auto-aof-rewrite-min-size", aof.auto_aof_rewrite_min_size.clone()),
    ]
}

fn replication(replication: &Replication) -> Vec<(&'static str, String)> {
    vec![
        ("repl-diskless-sync", yes_or_no(replication.diskless_sync)),
        ("min-replicas-to-write", replication.min_replicas_to_write.to_string()),
        ("min-replicas-max-lag", replication.min_replicas_max_lag.to_string()),
    ]
}

fn yes_or_no(value: bool) -> String {
    if value { "yes".to_owned() } else { "no".to_owned() }
}
