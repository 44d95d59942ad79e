//! The PodDisruptionBudget: closed unless the plan opens it. Pure.

use crate::metadata;
use crate::shape::Shape;
use crate::validated::ValidatedCluster;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub fn disruption_budget(cluster: &ValidatedCluster, shape: &Shape) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata::object(cluster, cluster.name.clone()),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(min_available(shape)),
            selector: Some(metadata::selector(cluster)),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}

/// In percent while it is closed: that holds for pods beyond the size, too.
fn min_available(shape: &Shape) -> IntOrString {
    match shape.evictable {
        0 => IntOrString::String("100%".to_owned()),
        some => IntOrString::Int(i32::try_from(shape.pods.saturating_sub(some)).unwrap_or(i32::MAX)),
    }
}
