//! What of a live StatefulSet decides about the next one. Pure; the operator reads it from its cache.

use api::names::{annotation, container};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PodSpec;

/// The parts that are kept: the volume claim template cannot change, and the sidecar image should not without need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    pub restart_revision: Option<String>,
    pub sidecar_image: Option<String>,
    pub storage_size: Option<String>,
}

impl Live {
    pub fn of(stateful_set: &StatefulSet) -> Self {
        let Some(spec) = &stateful_set.spec else { return Self::default() };
        let annotations = spec.template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
        Self {
            restart_revision: annotations.and_then(|map| map.get(annotation::RESTART_REVISION)).cloned(),
            sidecar_image: spec.template.spec.as_ref().and_then(sidecar_image),
            storage_size: storage_size(stateful_set),
        }
    }
}

fn sidecar_image(pod: &PodSpec) -> Option<String> {
    let sidecar = pod.init_containers.iter().flatten().find(|candidate| candidate.name == container::SIDECAR)?;
    sidecar.image.clone()
}

fn storage_size(stateful_set: &StatefulSet) -> Option<String> {
    let template = stateful_set.spec.as_ref()?.volume_claim_templates.as_ref()?.first()?;
    let requests = template.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage").map(|quantity| quantity.0.clone())
}
