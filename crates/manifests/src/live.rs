//! What of a live StatefulSet decides about the next one. Pure; the operator reads it from its cache.

use crate::restart::{self, Inputs};
use api::cluster::effective::built_in;
use api::cluster::{Exporter, ExporterImage, ValkeyClusterSpec, ValkeyImage};
use api::module;
use api::names::{annotation, container, environment};
use api::valkey_version::ValkeyVersion;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Container, LocalObjectReference, PersistentVolumeClaim, PodTemplateSpec};

/// The parts that are kept: the volume claim template cannot change, and images should not without need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    pub restart_revision: Option<String>,
    pub sidecar_image: Option<String>,
    /// The Valkey image, if it is the one the operator put there.
    pub valkey_image: Option<LiveImage>,
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

/// The image of the pods, and what was said of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveImage {
    pub name: String,
    pub tag: String,
    /// None: the tag tells.
    pub version: Option<ValkeyVersion>,
    pub pull_secrets: Vec<LocalObjectReference>,
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
            valkey_image: valkey_image(&spec.template),
            exporter_tag: image(&spec.template, container::EXPORTER).and_then(split).map(|(_, tag)| tag.to_owned()),
            leaves_modules: leaves_modules(&spec.template),
            platform_ids: inputs(&spec.template).is_some_and(|inputs| inputs.contains_key(restart::SECURITY_CONTEXT)),
            volume: claim.map(volume),
            storage_size: claim.and_then(storage_size),
        }
    }

    /// What a spec that leaves it out gets instead of what is built in, see [`built_in::keeps_valkey_tag`].
    pub fn running(&self) -> ValkeyClusterSpec {
        let exporter_tag = self.exporter_tag.clone().filter(|tag| built_in::keeps_exporter_tag(tag));
        let exporter_image = ExporterImage { tag: exporter_tag, ..ExporterImage::default() };
        ValkeyClusterSpec {
            valkey_image: self.valkey_image.as_ref().and_then(LiveImage::kept),
            exporter: Some(Exporter { image: Some(exporter_image), ..Exporter::default() }),
            modules: self.leaves_modules.then(Vec::new),
            ..ValkeyClusterSpec::default()
        }
    }
}

impl LiveImage {
    /// A tag that says no version is one of its repository, and means nothing elsewhere.
    fn kept(&self) -> Option<ValkeyImage> {
        match self.version {
            None if built_in::keeps_valkey_tag(&self.tag) => {
                Some(ValkeyImage { tag: Some(self.tag.clone()), ..ValkeyImage::default() })
            }
            Some(version) if built_in::keeps_valkey_version(version) => Some(ValkeyImage {
                name: Some(self.name.clone()),
                tag: Some(self.tag.clone()),
                version: Some(version.to_string()),
                image_pull_secrets: Some(self.pull_secrets.clone()).filter(|secrets| !secrets.is_empty()),
            }),
            _ => None,
        }
    }
}

fn template_annotation<'a>(template: &'a PodTemplateSpec, key: &str) -> Option<&'a String> {
    template.metadata.as_ref()?.annotations.as_ref()?.get(key)
}

fn container<'a>(template: &'a PodTemplateSpec, name: &str) -> Option<&'a Container> {
    let pod = template.spec.as_ref()?;
    pod.init_containers.iter().flatten().chain(&pod.containers).find(|candidate| candidate.name == name)
}

fn image<'a>(template: &'a PodTemplateSpec, name: &str) -> Option<&'a str> {
    container(template, name)?.image.as_deref()
}

/// An image that somebody else wrote into the template is no reason to stay with it; the digest beside it tells.
fn valkey_image(template: &PodTemplateSpec) -> Option<LiveImage> {
    let (name, tag) = split(image(template, container::VALKEY)?)?;
    let inputs = inputs(template)?;
    let ours = inputs.get(restart::VALKEY_IMAGE) == Some(&restart::image(name, tag));
    let pull_secrets = template.spec.as_ref().and_then(|pod| pod.image_pull_secrets.clone()).unwrap_or_default();
    let version = said_version(template, &inputs);
    ours.then(|| LiveImage { name: name.to_owned(), tag: tag.to_owned(), version, pull_secrets })
}

/// What `valkeyImage.version` said, where the tag does not tell.
fn said_version(template: &PodTemplateSpec, inputs: &Inputs) -> Option<ValkeyVersion> {
    let sidecar = container(template, container::SIDECAR)?;
    let variable = sidecar.env.iter().flatten().find(|variable| variable.name == environment::VALKEY_VERSION)?;
    let version = variable.value.as_ref()?.parse().ok()?;
    (inputs.get(restart::VALKEY_VERSION) == Some(&restart::digest(&version))).then_some(version)
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
