//! What metrics tell of one cluster: from its status, and from what is known of its certificates. Pure.

use crate::cluster_metrics::ClusterFacts;
use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use api::conditions::ConditionType;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

pub fn facts(cluster: &ValkeyCluster, stored: Vec<(&'static str, Timestamp)>) -> ClusterFacts {
    let nothing = ValkeyClusterStatus::default();
    let status = cluster.status.as_ref().unwrap_or(&nothing);
    let presented = status.pods.iter().filter_map(|pod| Some(pod.certificate_expires.as_ref()?.0)).min();
    let certificates = stored.into_iter().chain(presented.map(|at| ("presented", at)));
    ClusterFacts {
        namespace: cluster.namespace().unwrap_or_default(),
        name: cluster.name_any(),
        conditions: ConditionType::ALL.iter().map(|condition| (*condition, status_of(*condition, status))).collect(),
        pods_wanted: status.replicas.into(),
        pods_ready: status.ready_replicas.into(),
        orchestration: status
            .orchestration
            .as_ref()
            .map(|running| (running.kind.clone(), running.started_at.as_second())),
        queued: i64::try_from(status.queue.len()).unwrap_or(i64::MAX),
        certificates: certificates.map(|(which, at)| (which, at.as_second())).collect(),
    }
}

/// What nobody has said yet is unknown.
fn status_of(condition: ConditionType, status: &ValkeyClusterStatus) -> String {
    let found = status.conditions.iter().find(|found| found.type_ == condition.as_str());
    found.map_or_else(|| "Unknown".to_owned(), |found| found.status.clone())
}
