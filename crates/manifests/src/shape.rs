//! What the StatefulSet and the PodDisruptionBudget shall be now. Pure data; the planner decides it on the way to the spec, because
//! pods that hold data cannot simply follow a number.

use crate::validated::ValidatedCluster;

/// The pods as they shall be now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Shards, each with one primary.
    pub primaries: u32,
    pub replicas_per_primary: u32,
    /// Size of the StatefulSet: the pods with ordinals below this.
    pub pods: u32,
    /// Revision of the pod template that the StatefulSet carries: pods are born from it.
    pub template: String,
    /// Pods that may be evicted at the same time.
    pub evictable: u32,
}

impl Shape {
    /// The shape a new cluster is made in: exactly the spec.
    pub fn of_spec(cluster: &ValidatedCluster) -> Self {
        Self {
            primaries: cluster.master_count,
            replicas_per_primary: cluster.replicas_per_master,
            pods: cluster.pod_count(),
            template: crate::restart::revision(&cluster.restart_inputs),
            evictable: 0,
        }
    }
}
