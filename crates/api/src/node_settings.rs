//! `settings.json`: what the operator tells every sidecar of a cluster. Pure; written by `manifests`, read by the sidecar.
//! It holds only what is the same for all pods of the cluster; what differs comes from the pod's own environment.

use crate::text::digest;
use crate::valkey_version::ValkeyVersion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The layout below. A sidecar refuses a higher number than it knows; fields are only ever added under the same number.
pub const SETTINGS_VERSION: u32 = 1;
/// Without an answer for this long the other nodes hold a node for failed. Valkey's own 15 s leaves a shard without a
/// primary for about twenty; a pod on a busy node still answers well within this.
pub const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// The key of the ConfigMap, and the file name under the directory it is mounted at.
pub const SETTINGS_FILE: &str = "settings.json";
/// Where the sidecar sees the ConfigMap.
pub const SETTINGS_DIRECTORY: &str = "/etc/valkey-operator";

const REVISION_LENGTH: usize = 12;

/// Which settings these are, from the text of the file: a sidecar older than a field still counts it.
pub fn revision(text: &str) -> String {
    digest(text.as_bytes(), REVISION_LENGTH)
}

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
    /// The ValkeyCluster's UID: commands for another cluster of the same name are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
    /// Where the operator is and who it is; without it the sidecar works alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<LineSettings>,
}

/// How a sidecar finds its operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineSettings {
    /// `host:port`, each; a name may stand for several replicas.
    pub addresses: Vec<String>,
    /// The SPIFFE ID the operator shows; any other is not obeyed.
    pub operator_id: String,
    /// Where the pod has a SPIFFE Workload API (`unix:///…`), if the identity comes from there and not from the mounted Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_api_socket: Option<String>,
}

impl LineSettings {
    /// The directory in which the Workload API's socket is, where the pods mount it.
    pub fn workload_api_directory(&self) -> Option<&str> {
        let socket = self.workload_api_socket.as_ref()?.strip_prefix("unix://")?;
        let (directory, _) = socket.rsplit_once('/')?;
        Some(directory).filter(|directory| directory.starts_with('/'))
    }
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

    /// Whether a node is to answer reads while its cluster is down.
    pub fn allows_reads_when_down(&self) -> bool {
        self.parameters
            .get("cluster-allow-reads-when-down")
            .is_some_and(|value| value.trim().eq_ignore_ascii_case("yes"))
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
    fn a_field_this_program_does_not_know_changes_the_revision_too() {
        let other = WRITTEN_BY_A_NEWER_OPERATOR.replace("\"a\":1", "\"a\":2");
        assert_eq!(revision(WRITTEN_BY_A_NEWER_OPERATOR), revision(WRITTEN_BY_A_NEWER_OPERATOR));
        assert_ne!(revision(WRITTEN_BY_A_NEWER_OPERATOR), revision(&other));
        assert_eq!(revision(&other).len(), REVISION_LENGTH);
    }

    #[test]
    fn an_older_operator_names_no_line() {
        let settings: NodeSettings = serde_json::from_str(WRITTEN_BY_A_NEWER_OPERATOR).unwrap();
        assert_eq!((settings.cluster_uid, settings.line), (None, None));
    }

    #[test]
    fn the_directory_of_the_workload_api_is_that_of_its_socket() {
        let line = |socket: &str| LineSettings {
            addresses: Vec::new(),
            operator_id: String::new(),
            workload_api_socket: Some(socket.to_owned()),
        };
        assert_eq!(line("unix:///run/spire/agent.sock").workload_api_directory(), Some("/run/spire"));
        for socket in ["", "unix:///agent.sock", "unix://agent.sock", "tcp://127.0.0.1:80"] {
            assert_eq!(line(socket).workload_api_directory(), None, "{socket}");
        }
    }

    #[test]
    fn settings_survive_a_round_trip() {
        let mut settings: NodeSettings = serde_json::from_str(WRITTEN_BY_A_NEWER_OPERATOR).unwrap();
        settings.cluster_uid = Some("00000000-0000-0000-0000-000000000001".to_owned());
        let (addresses, operator_id) = (vec!["operator.svc:8443".to_owned()], "spiffe://system/operator".to_owned());
        settings.line = Some(LineSettings { addresses, operator_id, workload_api_socket: None });
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<NodeSettings>(&text).unwrap(), settings);
    }
}
