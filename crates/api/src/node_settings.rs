//! `settings.json`: what the operator tells every sidecar of a cluster. Pure; written by `manifests`, read by the sidecar.
//! It holds only what is the same for all pods of the cluster; what differs comes from the pod's own environment.

use crate::valkey_version::ValkeyVersion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The layout below. A sidecar refuses a higher number than it knows; fields are only ever added under the same number.
pub const SETTINGS_VERSION: u32 = 1;
/// The key of the ConfigMap, and the file name under the directory it is mounted at.
pub const SETTINGS_FILE: &str = "settings.json";
/// Where the sidecar sees the ConfigMap.
pub const SETTINGS_DIRECTORY: &str = "/etc/valkey-operator";

/// The settings all pods of one cluster share.
///
/// Unknown fields are ignored on reading: a newer operator may add some while an older sidecar is still running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSettings {
    /// Layout of this file, see [`SETTINGS_VERSION`].
    pub settings_version: u32,
    /// Name of the ValkeyCluster.
    pub cluster: String,
    /// Namespace of the ValkeyCluster.
    pub namespace: String,
    /// The headless Service; a pod is `<pod>.<headless_service>.<namespace>.svc`.
    pub headless_service: String,
    /// The version the spec asks for now. While pods are being replaced a pod may still run another one:
    /// what its own `VALKEY_VERSION` environment variable says wins.
    pub valkey_version: ValkeyVersion,
    /// Shards the spec asks for.
    pub master_count: u32,
    /// Replicas of each shard the spec asks for.
    pub replicas_per_master: u32,
    /// True when `/data` is a PersistentVolumeClaim, false when it is an emptyDir.
    pub persistent_volume: bool,
    /// Valkey parameters in Valkey's own words: the user's `config` together with what `backup` and `replication` mean.
    /// Complete except for what is ours to set per pod (port, dir, unixsocket, cluster-*, maxmemory if absent here, …).
    /// A parameter that the pod's Valkey version does not have is left out by the sidecar: see `api::parameters`.
    pub parameters: BTreeMap<String, String>,
}

impl NodeSettings {
    /// False when the file was written in a layout this program does not know.
    pub fn is_understood(&self) -> bool {
        self.settings_version <= SETTINGS_VERSION
    }

    /// Whether the parameters ask for an append-only file.
    pub fn wants_append_only_file(&self) -> bool {
        self.parameters.get("appendonly").is_some_and(|value| value == "yes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN_BY_A_NEWER_OPERATOR: &str = r#"{"settingsVersion":1,"cluster":"poc","namespace":"default",
        "headlessService":"poc-headless","valkeyVersion":"9.1.2","masterCount":3,"replicasPerMaster":1,
        "persistentVolume":true,"parameters":{"appendonly":"yes","hz":"20"},"addedLater":{"a":1}}"#;

    #[test]
    fn fields_a_newer_operator_added_are_ignored() {
        let settings: NodeSettings = serde_json::from_str(WRITTEN_BY_A_NEWER_OPERATOR).unwrap();
        assert!(settings.is_understood() && settings.wants_append_only_file());
        assert_eq!(settings.valkey_version.to_string(), "9.1.2");
    }

    #[test]
    fn a_newer_layout_is_not_understood() {
        let text = WRITTEN_BY_A_NEWER_OPERATOR.replace("\"settingsVersion\":1", "\"settingsVersion\":2");
        assert!(!serde_json::from_str::<NodeSettings>(&text).unwrap().is_understood());
    }

    #[test]
    fn settings_survive_a_round_trip() {
        let settings: NodeSettings = serde_json::from_str(WRITTEN_BY_A_NEWER_OPERATOR).unwrap();
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<NodeSettings>(&text).unwrap(), settings);
    }
}
