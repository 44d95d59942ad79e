//! The PodDisruptionBudget: closed unless the plan opens it. Pure.

use crate::metadata;
use crate::shape::Shape;
use crate::validated::ValidatedCluster;
use api::cluster::AppendFsync;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub fn disruption_budget(cluster: &ValidatedCluster, shape: &Shape) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata::object(cluster, cluster.name.clone()),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(min_available(shape)),
            unhealthy_pod_eviction_policy: Some(unhealthy_pods(cluster).to_owned()),
            selector: Some(metadata::selector(cluster)),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}

/// A pod that is not ready can be moved away from its node where that costs no data: every write is on its volume already. With snapshots
/// alone what the pod has in memory may be the last copy, most of all when it is not ready because none can be written.
fn unhealthy_pods(cluster: &ValidatedCluster) -> &'static str {
    let log = &cluster.spec.backup.aof;
    let kept = cluster.storage.is_some() && log.enabled && log.appendfsync != AppendFsync::No;
    if kept { "AlwaysAllow" } else { "IfHealthyBudget" }
}

/// In percent while it is closed: that holds for pods beyond the size, too.
fn min_available(shape: &Shape) -> IntOrString {
    match shape.evictable {
        0 => IntOrString::String("100%".to_owned()),
        some => IntOrString::Int(i32::try_from(shape.pods.saturating_sub(some)).unwrap_or(i32::MAX)),
    }
}
