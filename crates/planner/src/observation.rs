//! What was seen of one cluster, dated by the caller. Pure data; the operator's observe step fills it.

use crate::child::{ChildKey, ChildKind};
use crate::claim_facts::ClaimFacts;
use crate::differences::Difference;
use crate::identities::Certificates;
use crate::json;
use crate::nodes::NodeObservation;
use crate::ownership::{Ownership, ownership};
use crate::pod_facts::PodFacts;
use crate::pods;
use crate::references::References;
use crate::sidecars::LineFacts;
use serde_json::Value;
use std::collections::BTreeMap;

/// The ValkeyCluster all this is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub generation: Option<i64>,
    /// It has a deletion timestamp: its objects go with it and must not come back.
    pub deleting: bool,
}

/// Everything the planner may base a decision on, besides the spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    pub cluster: Identity,
    /// Objects of the cluster and objects in the way of one. What is wanted and not in here was looked for and is absent.
    pub children: BTreeMap<ChildKey, Observed>,
    pub pods: Vec<PodFacts>,
    /// Running pods of others that have the labels by which this cluster's are found.
    pub strangers: Vec<String>,
    pub claims: Vec<ClaimFacts>,
    /// Claims that have the names of the pods' claims and are not this cluster's. Looked for while there is no StatefulSet.
    pub foreign_claims: Vec<String>,
    /// What the sidecars said and which of them are connected.
    pub line: LineFacts,
    /// What is known of the Valkey nodes; None when nobody asked them.
    pub nodes: Option<NodeObservation>,
    /// Why the StatefulSet controller could not make a pod, when pods are missing.
    pub creation_failure: Option<CreationFailure>,
    /// What still differed right after our last apply of the present manifest: somebody changes it on its way in.
    pub altered_on_arrival: BTreeMap<ChildKey, Vec<Difference>>,
    /// The size of the StatefulSet that a write under way asks for.
    pub size_under_way: Option<u32>,
    /// The same of pods and volume claims, by their UID: the labels and annotations that are never as we set them.
    pub patches_altered_on_arrival: BTreeMap<String, Value>,
    /// Those of the sidecars.
    pub certificates: Certificates,
    /// What the spec refers to.
    pub references: References,
    pub writes: WriteOutcome,
}

/// What became of the writes that were planned from this observation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    pub tried: bool,
    pub failures: Vec<WriteFailure>,
}

/// A write that did not come through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    pub step: String,
    /// In the API server's own words.
    pub detail: String,
    /// The request itself is wrong: trying again without a change elsewhere is pointless.
    pub refused: bool,
}

/// What the StatefulSet controller said last about a pod it could not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreationFailure {
    pub message: String,
    /// Seconds since the epoch.
    pub at: i64,
}

/// One object as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    Object(Value),
    /// It could not be looked at; nothing is decided on it.
    Unknown(String),
    /// This Kubernetes does not have the kind.
    NotInstalled,
}

impl Observation {
    pub fn object(&self, key: &ChildKey) -> Option<&Value> {
        match self.children.get(key) {
            Some(Observed::Object(object)) => Some(object),
            _ => None,
        }
    }

    /// The StatefulSet of the cluster, if it is seen and nobody else's.
    pub fn stateful_set(&self) -> Option<&Value> {
        let object = self.object(&ChildKey::new(ChildKind::StatefulSet, &self.cluster.name))?;
        (!matches!(ownership(object, &self.cluster), Ownership::Foreign(_) | Ownership::Unbound)).then_some(object)
    }

    /// Below this number no pod is left out by the StatefulSet, as it is or as a write under way makes it.
    pub fn certain_size(&self) -> Option<u32> {
        let live = self.stateful_set().map(pods::asked_for)?;
        Some(self.size_under_way.map_or(live, |size| size.min(live)))
    }

    /// False while the StatefulSet controller has not yet looked at the latest StatefulSet.
    pub fn stateful_set_is_noticed(&self) -> bool {
        self.stateful_set().is_some_and(|object| {
            json::integer(object, "/status/observedGeneration") >= json::integer(object, "/metadata/generation")
        })
    }
}
