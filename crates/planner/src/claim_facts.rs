//! What matters about a PersistentVolumeClaim of a pod. Pure; the cache keeps these instead of whole claims.

use api::names::{self, annotation, label};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

/// The claim for one pod's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimFacts {
    pub name: String,
    pub uid: String,
    pub bound: bool,
    /// Seconds since the epoch.
    pub created: i64,
    /// The size asked for, as written there.
    pub requested: String,
    pub storage_class: Option<String>,
    /// The ValkeyCluster that its annotation names.
    pub cluster: Option<String>,
    /// Its label names another than its own name does.
    pub mislabelled: bool,
    /// Why it has no volume, as far as somebody said so. In no claim itself: observing adds it.
    pub failure: Option<String>,
}

impl ClaimFacts {
    /// Claims are named for the volume and the pod.
    pub fn belongs_to(&self, pod: &str) -> bool {
        self.name.strip_suffix(pod).is_some_and(|volume| volume == "data-")
    }

    pub fn of(claim: &PersistentVolumeClaim) -> ClaimFacts {
        let spec = claim.spec.clone().unwrap_or_default();
        let requests = spec.resources.and_then(|resources| resources.requests).unwrap_or_default();
        let named = claim.metadata.name.as_deref().and_then(names::cluster_of_claim);
        let labelled = claim.metadata.labels.as_ref().and_then(|labels| labels.get(label::INSTANCE));
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        ClaimFacts {
            name: claim.metadata.name.clone().unwrap_or_default(),
            uid: claim.metadata.uid.clone().unwrap_or_default(),
            bound: phase == Some("Bound"),
            created: claim.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            requested: requests.get("storage").map(|quantity| quantity.0.clone()).unwrap_or_default(),
            storage_class: spec.storage_class_name,
            cluster: claim.metadata.annotations.as_ref().and_then(|map| map.get(annotation::CR)).cloned(),
            mislabelled: named.is_some() && named != labelled.map(String::as_str),
            failure: None,
        }
    }
}
