//! What takes effect only when a pod is replaced, field by field. Pure. The pod template carries it, so that comparing a pod with
//! the template names what is pending; hot parameters, labels and whatever a newer operator does differently are no part of it.

use crate::environment;
use api::cluster::effective::EffectiveSpec;
use api::names::annotation;
use api::node_settings::LineSettings;
use api::valkey_version::ValkeyVersion;
use api::{parameters, text};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Field of the spec → digest of its effective value. A field without a value has no entry: a later version may then know more
/// fields without making anybody restart.
pub type Inputs = BTreeMap<String, String>;

pub(crate) const VALKEY_IMAGE: &str = "valkeyImage";
pub(crate) const VALKEY_VERSION: &str = "valkeyImage.version";
pub const MODULES: &str = "modules";
/// Only where the ids are left to the platform: they cannot change, and pods that have some from us need no entry.
pub(crate) const SECURITY_CONTEXT: &str = "securityContext";
const DIGEST_LENGTH: usize = 12;
/// Pods made before they were given an identity have no such entry, and get one only by being replaced. What the Secret holds
/// changes without a restart.
const MOUNTED_IDENTITY: &str = "certificate and token";

pub fn inputs(spec: &EffectiveSpec, version: ValkeyVersion, line: Option<&LineSettings>) -> Inputs {
    let mut inputs = Inputs::new();
    let mut add = |field: &str, value: Option<String>| inputs.extend(value.map(|digest| (field.to_owned(), digest)));
    add(VALKEY_IMAGE, Some(image(&spec.valkey_image.name, &spec.valkey_image.tag)));
    let of_tag = ValkeyVersion::from_tag(&spec.valkey_image.tag).ok();
    add(VALKEY_VERSION, (of_tag != Some(version)).then(|| digest(&version)));
    add(SECURITY_CONTEXT, spec.security_context.is_the_platforms().then(|| digest("the platform's choice")));
    add("sidecarImage", spec.sidecar_image.as_ref().map(|own| image(&own.name, &own.tag)));
    add("runtimeClassName", spec.runtime_class_name.as_ref().map(digest));
    add("env", (!spec.env.is_empty()).then(|| digest(&environment::in_order(&spec.env))));
    add("sidecarResources", (spec.sidecar_resources != Default::default()).then(|| digest(&spec.sidecar_resources)));
    add("resources", (spec.resources != Default::default()).then(|| digest(&spec.resources)));
    add("podAffinity", spec.pod_affinity.as_ref().map(digest));
    add("podAntiAffinity", spec.pod_anti_affinity.as_ref().map(digest));
    add("nodeAffinity", spec.node_affinity.as_ref().map(digest));
    add("tolerations", (!spec.tolerations.is_empty()).then(|| digest(&spec.tolerations)));
    add("topologySpreadConstraints", spec.topology_spread_constraints.as_ref().map(digest));
    add("priorityClassName", spec.priority_class_name.as_ref().map(digest));
    add("exporter", exporter(spec));
    add(MODULES, (!spec.modules.is_empty()).then(|| digest(&spec.modules)));
    let workload_api = line.and_then(LineSettings::workload_api_directory);
    add("operatorMtls", Some(workload_api.map_or_else(|| digest(MOUNTED_IDENTITY), digest)));
    for (name, value) in spec.config.iter().filter(|(name, _)| needs_restart(name, version)) {
        add(&format!("config.{name}"), Some(digest(value)));
    }
    inputs
}

pub(crate) fn image(name: &str, tag: &str) -> String {
    digest(&(name, tag))
}

fn exporter(spec: &EffectiveSpec) -> Option<String> {
    let exporter = spec.exporter.enabled.then_some(&spec.exporter)?;
    Some(digest(&(&exporter.image.name, &exporter.image.tag, &exporter.resources)))
}

fn needs_restart(name: &str, version: ValkeyVersion) -> bool {
    parameters::find(name).is_some_and(|parameter| parameter.needs_restart(version))
}

/// One digest over all of it.
pub fn revision(inputs: &Inputs) -> String {
    digest(inputs)
}

/// The two annotations of the pod template.
pub fn annotations(inputs: &Inputs) -> [(String, String); 2] {
    let text = serde_json::to_string(inputs).unwrap_or_default();
    [(annotation::RESTART_REVISION.to_owned(), revision(inputs)), (annotation::RESTART_INPUTS.to_owned(), text)]
}

/// The fields in which a pod is behind the template, by their annotations. None when the pod does not say, which is not "nothing".
pub fn pending(pod: &BTreeMap<String, String>, template: &BTreeMap<String, String>) -> Option<BTreeSet<String>> {
    let read = |annotations: &BTreeMap<String, String>| -> Option<Inputs> {
        serde_json::from_str(annotations.get(annotation::RESTART_INPUTS)?).ok()
    };
    let (has, wants) = (read(pod)?, read(template)?);
    let fields: BTreeSet<&String> = has.keys().chain(wants.keys()).collect();
    Some(fields.into_iter().filter(|field| has.get(*field) != wants.get(*field)).cloned().collect())
}

/// A short digest of anything that can be written as JSON.
pub(crate) fn digest(value: &(impl Serialize + ?Sized)) -> String {
    text::digest(&serde_json::to_vec(value).unwrap_or_default(), DIGEST_LENGTH)
}
