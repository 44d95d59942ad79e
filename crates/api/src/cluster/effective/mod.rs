//! What a cluster's spec means once everything left out is filled in, and where each value comes from. Pure.
//! Built-in < running < defaults of the operator's namespace < defaults of the cluster's namespace < the object.
//! Objects merge field by field and maps key by key; lists, affinities and single values are taken whole from the highest layer.

pub mod built_in;
mod fields;
mod resolver;
mod spec;

pub use spec::{
    AppendOnlyFile, Backup, ClientService, DatabaseSnapshots, EffectiveSpec, Exporter, Image, NetworkPolicy,
    OperatorMtls, PodServiceAccount, ReadService, Replication, Resources, SecurityContext, ServiceMonitor, Storage,
    ValkeyImage,
};

use super::spec::ValkeyClusterSpec;
use resolver::Resolver;
use serde::Serialize;
use std::collections::BTreeMap;

/// What may say something about a cluster; each is free to leave anything out. What is built in stands below them all.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// What the pods run already and a newer operator alone must not change.
    pub running: Option<&'a ValkeyClusterSpec>,
    /// Defaults of the operator's namespace.
    pub operator_namespace: Option<&'a ValkeyClusterSpec>,
    /// Defaults of the cluster's namespace.
    pub cluster_namespace: Option<&'a ValkeyClusterSpec>,
    pub object: &'a ValkeyClusterSpec,
}

impl<'a> Layers<'a> {
    /// An object for which nobody set defaults.
    pub fn of(object: &'a ValkeyClusterSpec) -> Self {
        Self { running: None, operator_namespace: None, cluster_namespace: None, object }
    }

    /// From the highest to the lowest.
    fn downwards(self) -> impl Iterator<Item = (Origin, &'a ValkeyClusterSpec)> {
        let layers = [
            (Origin::Object, Some(self.object)),
            (Origin::ClusterNamespace, self.cluster_namespace),
            (Origin::OperatorNamespace, self.operator_namespace),
            (Origin::Running, self.running),
        ];
        layers.into_iter().filter_map(|(origin, spec)| Some((origin, spec?)))
    }
}

/// Which layer a value comes from, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    BuiltIn,
    Running,
    OperatorNamespace,
    ClusterNamespace,
    Object,
}

/// Path of a field (`spec.valkeyImage.tag`, `spec.config[hz]`) → where its value comes from. What has no value has no entry.
pub type Origins = BTreeMap<String, Origin>;

/// A spec without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    pub spec: EffectiveSpec,
    pub origins: Origins,
}

pub fn resolve(layers: Layers<'_>) -> Effective {
    let mut resolver = Resolver::new(layers);
    let spec = fields::resolve(&mut resolver);
    Effective { spec, origins: resolver.origins }
}
