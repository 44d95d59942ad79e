//! Where pods go: what the user says, and otherwise apart from each other. Pure.

use crate::metadata;
use crate::validated::ValidatedCluster;
use k8s_openapi::api::core::v1::{
    Affinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint, WeightedPodAffinityTerm,
};

/// Losing a node is more frequent than losing a zone, so avoiding a shared node weighs more.
const APART: [(&str, i32); 2] = [("kubernetes.io/hostname", 100), ("topology.kubernetes.io/zone", 50)];

pub fn affinity(cluster: &ValidatedCluster) -> Affinity {
    let spec = &cluster.spec;
    Affinity {
        node_affinity: spec.node_affinity.clone(),
        pod_affinity: spec.pod_affinity.clone(),
        pod_anti_affinity: Some(spec.pod_anti_affinity.clone().unwrap_or_else(|| apart(cluster))),
    }
}

/// Preferred only: a small cluster of machines must still be able to run all pods.
fn apart(cluster: &ValidatedCluster) -> PodAntiAffinity {
    let terms = APART.map(|(topology_key, weight)| WeightedPodAffinityTerm {
        weight,
        pod_affinity_term: PodAffinityTerm {
            label_selector: Some(metadata::selector(cluster)),
            topology_key: topology_key.to_owned(),
            ..PodAffinityTerm::default()
        },
    });
    PodAntiAffinity { preferred_during_scheduling_ignored_during_execution: Some(terms.into()), ..Default::default() }
}

pub fn spread(cluster: &ValidatedCluster) -> Vec<TopologySpreadConstraint> {
    match &cluster.spec.topology_spread_constraints {
        Some(constraints) => constraints.iter().map(|constraint| about_our_pods(cluster, constraint)).collect(),
        None => APART.map(|(topology_key, _)| evenly(cluster, topology_key)).into(),
    }
}

/// Without a selector a constraint counts no pod at all, which nobody means.
fn about_our_pods(cluster: &ValidatedCluster, constraint: &TopologySpreadConstraint) -> TopologySpreadConstraint {
    let mut constraint = constraint.clone();
    constraint.label_selector.get_or_insert_with(|| metadata::selector(cluster));
    constraint
}

fn evenly(cluster: &ValidatedCluster, topology_key: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: topology_key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(metadata::selector(cluster)),
        ..TopologySpreadConstraint::default()
    }
}
