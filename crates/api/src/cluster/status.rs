//! What the operator reports about a ValkeyCluster. Pure; bounded in size whatever the cluster's.

use super::node_status::{OrchestrationStatus, QueuedStatus, ShardStatus};
use crate::conditions::{CONDITIONS, names};
use crate::readable;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pods in the status; the summary counts them all.
pub const LISTED_PODS: usize = 100;
/// Modules that are listened to of one node, and listed; Valkeys have a handful.
pub const LISTED_MODULES: usize = 32;
/// A shard has at least one slot: there are never more.
const SHARDS: usize = 16_384;
const QUEUE: usize = 16;

/// What the operator last saw and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyClusterStatus {
    /// The generation of the spec this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people; programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Always "cluster": what kind of Valkey deployment this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_type: Option<String>,
    /// The Valkey version the spec asks for, read from the image tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Shards there are: those that have slots. The scale subresource reports it.
    #[serde(default)]
    pub master_count: i32,
    /// Replicas of each shard the pods are made for.
    #[serde(default)]
    pub replicas_per_master: i32,
    /// Pods there should be: masterCount * (1 + replicasPerMaster).
    #[serde(default)]
    pub replicas: i32,
    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Ready pods of all pods, for people: "6/6".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_pods: Option<String>,
    /// Sidecars connected to the operator of all pods, for people: "6/6".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecars: Option<String>,
    /// The request `valkey.io/update-sidecars`, once it was followed: pods that are made have this build of the sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar_update: Option<String>,
    /// True where the platform chooses the ids of the pods: their spec.securityContext was empty when they were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_ids: Option<bool>,
    /// Label selector of the primaries, for the scale subresource: as many pods as masterCount counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The StatefulSet that runs the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stateful_set: Option<StatefulSetReference>,
    /// The exporter and where its metrics are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter: Option<ExporterStatus>,
    /// The state in detail; every type is always there.
    #[serde(default, deserialize_with = "readable::entries")]
    #[schemars(
        length(max = CONDITIONS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// The pods as their sidecars report them: those without a connection first, at most 100.
    #[serde(default, deserialize_with = "readable::entries", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = LISTED_PODS), extend("x-kubernetes-list-type" = "atomic"))]
    pub pods: Vec<PodStatus>,
    /// The modules that the nodes have loaded, by name, at most 32.
    #[serde(default, deserialize_with = "readable::entries", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = LISTED_MODULES))]
    pub modules: Vec<ModuleStatus>,
    /// The shards as last known: which slots, which nodes, who is the primary.
    #[serde(default, deserialize_with = "readable::entries", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = SHARDS), extend("x-kubernetes-list-type" = "atomic"))]
    pub shards: Vec<ShardStatus>,
    /// The change of several steps that is under way.
    #[serde(default, deserialize_with = "readable::value", skip_serializing_if = "Option::is_none")]
    pub orchestration: Option<OrchestrationStatus>,
    /// Changes that wait for the one under way to end.
    #[serde(default, deserialize_with = "readable::entries", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = QUEUE), extend("x-kubernetes-list-type" = "atomic"))]
    pub queue: Vec<QueuedStatus>,
    /// What the operator will do next, in words; empty when there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

names! {
    /// One word for the state of the cluster. Display only; in the status it is a string, as words are that a newer operator may add to.
    Phase {
        /// The pods are being made for the first time.
        Pending,
        /// All is as the spec says.
        Running,
        /// Something is wrong that does not pass by itself.
        Failed,
        /// Something is being changed, or is not ready.
        Updating,
        /// A backup is being made.
        Backup,
        /// A backup is being restored.
        Restore,
        /// The operator has let go of the cluster.
        Unbound,
    }
}

/// One pod as its sidecar reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Its name.
    pub name: String,
    /// Whether its sidecar is connected to the operator.
    pub connected: bool,
    /// When the sidecar last spoke, as of the last change of this status: about every minute while it is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<Time>,
    /// Version of the sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar_version: Option<String>,
    /// When the certificate ends that the sidecar connected with; it is replaced well before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_expires: Option<Time>,
}

/// A module that nodes have loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModuleStatus {
    /// What it calls itself, such as json.
    pub name: String,
    /// As it numbers itself, the highest of all nodes: 10002 is mostly meant as 1.0.2.
    pub version: i64,
    /// How many nodes have it. As long as that are not all, its commands are not understood everywhere.
    pub pods: i32,
}

/// The StatefulSet that runs the pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetReference {
    /// Its name, in the namespace of the ValkeyCluster.
    pub name: String,
}

/// The exporter and where its metrics are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExporterStatus {
    /// Whether the pods have the exporter container.
    pub enabled: bool,
    /// Where Prometheus finds the metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_endpoint: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(status: &Value) -> ValkeyClusterStatus {
        serde_json::from_value(status.clone()).unwrap()
    }

    #[test]
    fn what_another_version_wrote_otherwise_costs_its_own_part_alone() {
        let shard = json!({"id": "shard-0", "slots": "0-9", "nodes": [], "addedLater": true});
        let status = read(&json!({
            "phase": "Hibernating", "masterCount": 3, "orchestration": {"id": "x", "startedAt": "yesterday"},
            "shards": [{"id": 7}, shard], "queue": [{"why": "none"}], "pods": "all", "plan": "wait",
        }));
        assert_eq!((&status.orchestration, status.queue.len(), status.pods.len()), (&None, 0, 0));
        assert_eq!(status.shards.iter().map(|shard| shard.id.as_str()).collect::<Vec<_>>(), ["shard-0"]);
        assert_eq!((status.master_count, status.plan.as_deref()), (3, Some("wait")));
    }

    #[test]
    fn words_of_a_newer_operator_are_kept_as_they_are() {
        let stored = json!({
            "phase": "Hibernating", "masterCount": 3, "replicasPerMaster": 1, "replicas": 6, "readyReplicas": 6, "conditions": [],
            "orchestration": {
                "id": "x", "kind": "Terraform", "step": "Dig", "stepVersion": 7, "startedAt": "2026-01-01T00:00:00Z",
                "stepStartedAt": "2026-01-01T00:00:00Z", "answers": {"done": 1, "failed": 0, "refused": 0},
            },
            "queue": [{"kind": "Terraform", "since": "2026-01-01T00:00:00Z", "why": "asked"}],
            "shards": [{"id": "a", "slots": "0-9", "nodes": [{"pod": "p", "nodeId": "n", "role": "arbiter", "state": "asleep"}]}],
        });
        assert_eq!(serde_json::to_value(read(&stored)).unwrap(), stored);
    }
}
