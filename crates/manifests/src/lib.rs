//! A ValkeyCluster as Kubernetes objects. Pure and total: what can be wrong is said by [`ValidatedCluster::parse`], after which
//! [`build`] cannot fail. The operator applies what comes out; one file per kind.

mod config_map;
mod disruption_budget;
mod environment;
mod exporter_container;
mod live;
mod metadata;
mod network_policy;
mod network_problems;
mod node_settings;
mod pod;
mod probe;
mod problems;
pub mod restart;
mod scheduling;
mod security;
mod service;
mod service_account;
mod service_monitor;
mod shape;
mod sidecar_container;
mod stateful_set;
mod validated;
mod valkey_container;
mod volumes;

pub use live::{Live, LiveVolume, build_of};
pub use metadata::{live_pod_annotations, pod_annotations, pod_labels};
pub use node_settings::node_settings;
pub use problems::Problem;
pub use shape::Shape;
pub use validated::{Exporter, OperatorSettings, Storage, ValidatedCluster};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::DynamicObject;

/// All objects of one cluster. Whoever applies them takes the struct apart without `..`, so that no kind is forgotten.
/// None means: there must be no such object.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    pub service_account: ServiceAccount,
    pub config_map: ConfigMap,
    pub network_policy: Option<NetworkPolicy>,
    pub disruption_budget: PodDisruptionBudget,
    pub headless_service: Service,
    pub client_service: Service,
    pub read_service: Option<Service>,
    pub service_monitor: Option<DynamicObject>,
    pub stateful_set: StatefulSet,
}

/// The objects of a cluster in its present shape.
pub fn build(cluster: &ValidatedCluster, shape: &Shape) -> Objects {
    Objects {
        service_account: service_account::service_account(cluster),
        config_map: config_map::config_map(cluster),
        network_policy: network_policy::network_policy(cluster),
        disruption_budget: disruption_budget::disruption_budget(cluster, shape),
        headless_service: service::headless(cluster),
        client_service: service::client(cluster),
        read_service: cluster.read_service.then(|| service::read(cluster)),
        service_monitor: service_monitor::service_monitor(cluster),
        stateful_set: stateful_set::stateful_set(cluster, shape),
    }
}
