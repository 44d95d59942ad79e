//! The PodDisruptionBudget: closed. Nobody evicts a pod unless the operator opens it for that pod. Pure.

use crate::metadata;
use crate::validated::ValidatedCluster;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub fn disruption_budget(cluster: &ValidatedCluster) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata::object(cluster, cluster.name.clone()),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::String("100%".to_owned())),
            selector: Some(metadata::selector(cluster)),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
