//! The spec without gaps: field for field the one people write. Pure. What is still optional here has no default.

use super::built_in;
use crate::cluster::AppendFsync;
use crate::module::Module;
use k8s_openapi::api::core::v1::{
    EnvVar, LocalObjectReference, NodeAffinity, PodAffinity, PodAntiAffinity, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveSpec {
    pub valkey_image: ValkeyImage,
    pub master_count: i32,
    pub replicas_per_master: i32,
    pub tls: Option<String>,
    pub acl: Option<String>,
    pub pod_affinity: Option<PodAffinity>,
    pub pod_anti_affinity: Option<PodAntiAffinity>,
    pub node_affinity: Option<NodeAffinity>,
    pub tolerations: Vec<Toleration>,
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    pub priority_class_name: Option<String>,
    pub runtime_class_name: Option<String>,
    pub resources: Resources,
    pub env: Vec<EnvVar>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub security_context: SecurityContext,
    pub pvc: Option<Storage>,
    pub backup: Backup,
    pub sidecar_image: Option<Image>,
    pub sidecar_resources: Resources,
    pub exporter: Exporter,
    pub service: ClientService,
    pub read_service: ReadService,
    pub service_account: PodServiceAccount,
    pub network_policy: NetworkPolicy,
    pub replication: Replication,
    pub config: BTreeMap<String, String>,
    pub modules: Vec<Module>,
    pub operator_mtls: OperatorMtls,
    pub paused: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyImage {
    pub name: String,
    pub tag: String,
    pub version: Option<String>,
    pub image_pull_secrets: Vec<LocalObjectReference>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    pub name: String,
    pub tag: String,
    pub image_pull_secrets: Vec<LocalObjectReference>,
}

/// Pods carry digests of this as JSON: another form of it would look like a change to all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

/// All ids, or none: what the platform chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityContext {
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub fs_group: Option<i64>,
}

impl SecurityContext {
    pub fn built_in() -> Self {
        let id = Some(built_in::VALKEY_ID);
        Self { run_as_user: id, run_as_group: id, fs_group: id }
    }

    pub fn is_the_platforms(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Empty when no layer gives a size, which is no size.
    pub storage_size: String,
    pub storage_class_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    pub database: DatabaseSnapshots,
    pub aof: AppendOnlyFile,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSnapshots {
    pub enabled: bool,
    pub save: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendOnlyFile {
    pub enabled: bool,
    pub appendfsync: AppendFsync,
    pub auto_aof_rewrite_percentage: i32,
    pub auto_aof_rewrite_min_size: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exporter {
    pub enabled: bool,
    pub image: Image,
    pub resources: Resources,
    pub service_monitor: ServiceMonitor,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitor {
    pub enabled: bool,
    pub interval: String,
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientService {
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadService {
    pub enabled: bool,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodServiceAccount {
    pub annotations: BTreeMap<String, String>,
}

/// What is left out in both lists is everybody; an empty list has nobody in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    pub enabled: bool,
    pub from: Option<Vec<NetworkPolicyPeer>>,
    pub metrics_from: Option<Vec<NetworkPolicyPeer>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replication {
    pub diskless_sync: bool,
    pub min_replicas_to_write: i32,
    pub min_replicas_max_lag: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorMtls {
    pub client_cert_validity: String,
    pub rotate_before_percent: i32,
}
