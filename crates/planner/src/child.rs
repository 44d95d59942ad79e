//! The kinds of objects a cluster consists of and how one of them is named. Pure; planner and operator share it.

use std::fmt;

/// Kinds of objects the operator applies, in the order in which a new cluster needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChildKind {
    ServiceAccount,
    ConfigMap,
    Service,
    NetworkPolicy,
    PodDisruptionBudget,
    ServiceMonitor,
    StatefulSet,
}

impl ChildKind {
    pub const ALL: [ChildKind; 7] = [
        ChildKind::ServiceAccount,
        ChildKind::ConfigMap,
        ChildKind::Service,
        ChildKind::NetworkPolicy,
        ChildKind::PodDisruptionBudget,
        ChildKind::ServiceMonitor,
        ChildKind::StatefulSet,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ChildKind::ServiceAccount => "ServiceAccount",
            ChildKind::ConfigMap => "ConfigMap",
            ChildKind::Service => "Service",
            ChildKind::NetworkPolicy => "NetworkPolicy",
            ChildKind::PodDisruptionBudget => "PodDisruptionBudget",
            ChildKind::ServiceMonitor => "ServiceMonitor",
            ChildKind::StatefulSet => "StatefulSet",
        }
    }

    /// Group, version and plural, as they stand in an API path.
    pub fn resource(self) -> (&'static str, &'static str, &'static str) {
        match self {
            ChildKind::ServiceAccount => ("", "v1", "serviceaccounts"),
            ChildKind::ConfigMap => ("", "v1", "configmaps"),
            ChildKind::Service => ("", "v1", "services"),
            ChildKind::NetworkPolicy => ("networking.k8s.io", "v1", "networkpolicies"),
            ChildKind::PodDisruptionBudget => ("policy", "v1", "poddisruptionbudgets"),
            ChildKind::ServiceMonitor => ("monitoring.coreos.com", "v1", "servicemonitors"),
            ChildKind::StatefulSet => ("apps", "v1", "statefulsets"),
        }
    }

    /// Whether every Kubernetes has this kind; the others come with somebody's CRDs.
    pub fn is_built_in(self) -> bool {
        self != ChildKind::ServiceMonitor
    }
}

impl fmt::Display for ChildKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One object of a cluster; the namespace is the cluster's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildKey {
    pub kind: ChildKind,
    pub name: String,
}

impl ChildKey {
    pub fn new(kind: ChildKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }
}

impl fmt::Display for ChildKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
