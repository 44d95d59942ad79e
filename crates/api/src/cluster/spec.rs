//! The spec of a ValkeyCluster, field by field. Pure. Field comments are what `kubectl explain` shows.

// Each printer column is an attribute of its own kind; the lint compares them all.
#![allow(clippy::duplicated_attributes)]

use super::backup::Backup;
use super::effective::built_in;
use super::exporter::Exporter;
use super::image::{Image, ValkeyImage};
use super::module::Module;
use super::network_policy::NetworkPolicy;
use super::replication::Replication;
use super::resources::Resources;
use super::rules;
use super::security_context::SecurityContext;
use super::services::{ClientService, PodServiceAccount, ReadService};
use super::status::ValkeyClusterStatus;
use super::storage::Storage;
use crate::certificates::OperatorMtls;
use k8s_openapi::api::core::v1::{
    EnvVar, NodeAffinity, PodAffinity, PodAntiAffinity, Toleration, TopologySpreadConstraint,
};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a Valkey cluster should be: masterCount shards, each a primary with replicasPerMaster replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
#[kube(
    group = "valkey.io",
    version = "v1alpha1",
    kind = "ValkeyCluster",
    namespaced,
    crates(kube_core = "::kube_core"),
    status = "ValkeyClusterStatus",
    derive = "PartialEq",
    shortname = "vc",
    category = "valkey",
    doc = "A sharded Valkey cluster, run by the Valkey operator.",
    scale(
        spec_replicas_path = ".spec.masterCount",
        status_replicas_path = ".status.masterCount",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Primaries", type_ = "integer", json_path = ".spec.masterCount"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicasPerMaster"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Pods", type_ = "string", json_path = ".status.readyPods"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Sidecars", type_ = "string", priority = 1, json_path = ".status.sidecars"),
    printcolumn(name = "Plan", type_ = "string", priority = 1, json_path = ".status.plan")
)]
pub struct ValkeyClusterSpec {
    /// The Valkey image. Takes effect when the pods restart, which the condition RestartRequired waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valkey_image: Option<ValkeyImage>,
    /// Number of shards, each with one primary. At least 3, and not more than 1000 pods: 1000 shards without replicas, 500 with one
    /// replica each. Slots move to new shards, and away from those that go, before their pods end. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = built_in::MASTER_COUNT, "x-kubernetes-validations" = rules::master_count()))]
    pub master_count: Option<i32>,
    /// Replicas of each primary, from 0 to 5. With 0 the loss of a pod is the loss of a shard. Replicas are added at once, and
    /// go when those that stay have all data. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::replicas_per_master()))]
    pub replicas_per_master: Option<i32>,
    /// Name of the ValkeyClusterTls that says how the ports do TLS. Not supported yet and refused: leave it out, and the port is
    /// plain. Between operator and sidecars there is always mutual TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::tls()))]
    pub tls: Option<String>,
    /// Name of the ValkeyClusterAcl that says which users there are. Not supported yet and refused: leave it out, and everybody who
    /// reaches the port may do everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::acl()))]
    pub acl: Option<String>,
    /// Which pods the Valkey pods want to be near. Takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,
    /// Which pods the Valkey pods want to be away from. Left out, the pods of this cluster avoid each other's node and zone where they can.
    /// Takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAntiAffinity>,
    /// Which nodes the pods may or should run on. Takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    /// Taints the pods tolerate. Takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// How the pods spread over nodes and zones. Left out, evenly over both where possible. Takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// PriorityClass of the pods. Takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// RuntimeClass of the pods, for example of a sandbox. Takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = rules::runtime_class()))]
    pub runtime_class_name: Option<String>,
    /// CPU and memory of the valkey container. Takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Environment variables of the valkey container, for example TZ or what a module reads. They take effect when the pods restart. Those
    /// that the operator uses itself are refused; parameters of Valkey belong in config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::env::schema")]
    pub env: Option<Vec<EnvVar>>,
    /// Labels for the pods and all other objects of this cluster. Changing them restarts nothing. Pods also get the label app with the
    /// cluster's name, unless it is given here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::metadata_rules::labels")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations for the pods. Changing them restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::metadata_rules::annotations")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// The user and groups the pods run as. Left out, 999 each; empty ({}), what the platform chooses. Immutable, but for an
    /// empty one, which can be taken back until the cluster is formed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    /// A PersistentVolumeClaim for each pod. Left out, the data lives as long as the pod. Only the size can change, and only upwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<Storage>,
    /// How the pods keep their data on disk. Changing it restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
    /// The sidecar's image. Left out, the one of the operator when the cluster was made, or when a restart last became due. Takes effect when
    /// the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar_image: Option<Image>,
    /// CPU and memory of the sidecar container. Left out, it asks for 10m CPU and 32Mi of memory and may use 32Mi. What is given stands
    /// for all of it: write the memory limit too, which must be at least 32Mi. Takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar_resources: Option<Resources>,
    /// Metrics for Prometheus. A change of the container takes effect when the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter: Option<Exporter>,
    /// The Service for clients, named as the cluster. Changing it restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ClientService>,
    /// A Service that leads to the replicas only. Changing it restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_service: Option<ReadService>,
    /// The ServiceAccount of the pods. Changing it restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<PodServiceAccount>,
    /// Who may reach the pods over the network. Changing it restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicy>,
    /// How primaries and their replicas work together. Changing it restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication: Option<Replication>,
    /// Parameters of valkey.conf, for example maxmemory-policy: "allkeys-lru". Values are strings. Most take effect at once;
    /// the others wait for a restart, which the condition RestartRequired tells. Those that the operator sets itself are refused.
    /// One that the operator does not know, of a newer Valkey or of a module, is set on servers that have it and take it while they
    /// run; the condition ParametersInEffect tells where it is not in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::config_rules::schema")]
    pub config: Option<BTreeMap<String, String>>,
    /// Modules that every Valkey loads when it starts, in this order, at most 16. A Valkey that cannot load one does not start. Left out,
    /// an image called valkey-bundle loads what its own entry point does: json, search, bloom and ldap; any other image loads none. A cluster
    /// that ran that image without them before goes on without until they are named here. Takes effect when the pods restart: use no command
    /// of a new module before every pod has it (status.modules), and remove none while there is data of its types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub modules: Option<Vec<Module>>,
    /// How long the identity of this cluster's sidecars lasts. Changing it restarts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_mtls: Option<OperatorMtls>,
    /// The operator leaves the cluster alone while this is true, but for the certificates of its sidecars, which are renewed. The pods go
    /// on serving. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}
