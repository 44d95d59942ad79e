//! What of a live StatefulSet decides about the next one. Pure; the operator reads it from its cache.

use crate::restart::{self, Inputs};
use api::cluster::effective::built_in;
use api::cluster::{Exporter, ExporterImage, ValkeyClusterSpec, ValkeyImage};
use api::module;
use api::names::{annotation, container};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaim, PodTemplateSpec};

/// The parts that are kept: the volume claim template cannot change, and images should not without need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    pub restart_revision: Option<String>,
    pub sidecar_image: Option<String>,
    /// Tag of the Valkey image, if the image is the one the operator put there.
    pub valkey_tag: Option<String>,
    pub exporter_tag: Option<String>,
    /// The image brings modules and the pods load none.
    pub leaves_modules: bool,
    /// The ids of its pods were left to the platform.
    pub platform_ids: bool,
    /// None: the pods have no volumes of their own.
    pub volume: Option<LiveVolume>,
    /// The size in the volume claim template that is to stay.
    pub storage_size: Option<String>,
}

/// What a volume claim template says for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveVolume {
    pub class: Option<String>,
}

impl Live {
    pub fn of(stateful_set: &StatefulSet) -> Self {
        let Some(spec) = &stateful_set.spec else { return Self::default() };
        let claim = spec.volume_claim_templates.as_ref().and_then(|claims| claims.first());
        Self {
            restart_revision: template_annotation(&spec.template, annotation::RESTART_REVISION).cloned(),
            sidecar_image: image(&spec.template, container::SIDECAR).map(str::to_owned),
            valkey_tag: valkey_tag(&spec.template),
            exporter_tag: image(&spec.template, container::EXPORTER).and_then(split).map(|(_, tag)| tag.to_owned()),
            leaves_modules: leaves_modules(&spec.template),
            platform_ids: inputs(&spec.template).is_some_and(|inputs| inputs.contains_key(restart::SECURITY_CONTEXT)),
            volume: claim.map(volume),
            storage_size: claim.and_then(storage_size),
        }
    }

    /// What a spec that leaves it out gets instead of what is built in, see [`built_in::keeps_valkey_tag`].
    pub fn running(&self) -> ValkeyClusterSpec {
        let valkey_tag = self.valkey_tag.clone().filter(|tag| built_in::keeps_valkey_tag(tag));
        let exporter_tag = self.exporter_tag.clone().filter(|tag| built_in::keeps_exporter_tag(tag));
        let exporter_image = ExporterImage { tag: exporter_tag, ..ExporterImage::default() };
        ValkeyClusterSpec {
            valkey_image: Some(ValkeyImage { tag: valkey_tag, ..ValkeyImage::default() }),
            exporter: Some(Exporter { image: Some(exporter_image), ..Exporter::default() }),
            modules: self.leaves_modules.then(Vec::new),
            ..ValkeyClusterSpec::default()
        }
    }
}

fn template_annotation<'a>(template: &'a PodTemplateSpec, key: &str) -> Option<&'a String> {
    template.metadata.as_ref()?.annotations.as_ref()?.get(key)
}

fn image<'a>(template: &'a PodTemplateSpec, container: &str) -> Option<&'a str> {
    let pod = template.spec.as_ref()?;
    let named = |candidate: &&Container| candidate.name == container;
    pod.init_containers.iter().flatten().chain(&pod.containers).find(named)?.image.as_deref()
}

/// An image that somebody else wrote into the template is no reason to stay with it; the digest beside it tells.
fn valkey_tag(template: &PodTemplateSpec) -> Option<String> {
    let (name, tag) = split(image(template, container::VALKEY)?)?;
    (inputs(template)?.get(restart::VALKEY_IMAGE) == Some(&restart::image(name, tag))).then(|| tag.to_owned())
}

/// As an earlier operator started it. Modules in some of the pods only would be worse than in none.
fn leaves_modules(template: &PodTemplateSpec) -> bool {
    let name = image(template, container::VALKEY).and_then(split).map(|(name, _)| name);
    let loads = inputs(template).is_some_and(|inputs| inputs.contains_key(restart::MODULES));
    name.is_some_and(module::is_bundle) && !loads
}

/// Which build an image is, whatever its repository: tag, digest, or both.
pub fn build_of(image: &str) -> &str {
    split(image).map_or(image, |(_, build)| build)
}

fn inputs(template: &PodTemplateSpec) -> Option<Inputs> {
    serde_json::from_str(template_annotation(template, annotation::RESTART_INPUTS)?).ok()
}

/// Name and tag. A registry may have a port and a tag a digest, each with a colon of its own; a digest may also stand alone.
fn split(image: &str) -> Option<(&str, &str)> {
    let after_registry = image.rfind('/').map_or(0, |slash| slash + 1);
    let name_end = after_registry + image.get(after_registry..)?.find([':', '@'])?;
    Some((image.get(..name_end)?, image.get(name_end + 1..)?))
}

fn volume(template: &PersistentVolumeClaim) -> LiveVolume {
    LiveVolume { class: template.spec.as_ref().and_then(|spec| spec.storage_class_name.clone()) }
}

fn storage_size(template: &PersistentVolumeClaim) -> Option<String> {
    let requests = template.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage").map(|quantity| quantity.0.clone())
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn an_image_is_taken_apart_where_its_tag_begins() {
        let cases = [
            ("valkey:9.1", Some(("valkey", "9.1"))),
            ("registry.example:5000/valkey/valkey:8.1.1", Some(("registry.example:5000/valkey/valkey", "8.1.1"))),
            ("valkey/valkey:9.1.2@sha256:00ff", Some(("valkey/valkey", "9.1.2@sha256:00ff"))),
            ("registry.example:5000/valkey@sha256:00ff", Some(("registry.example:5000/valkey", "sha256:00ff"))),
            ("registry.example:5000/valkey", None),
        ];
        for (image, expected) in cases {
            assert_eq!(split(image), expected, "{image}");
        }
    }
}
