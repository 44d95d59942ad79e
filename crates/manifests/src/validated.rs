//! A ValkeyCluster that was read once and for all: everything that can be wrong in it is said here. Pure; the operator calls it.

use crate::live::{Live, build_of};
use crate::problems::{Problem, Problems};
use crate::restart::{self, Inputs};
use api::cluster::effective::{Effective, EffectiveSpec, Origins, Resources, SecurityContext};
use api::duration::Duration;
use api::names::annotation::UPDATE_SIDECARS;
use api::node_settings::LineSettings;
use api::quantity::Quantity;
use api::valkey_version::ValkeyVersion;
use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// What the operator itself was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorSettings {
    /// Full reference of the sidecar image for clusters that name none.
    pub sidecar_image: String,
    /// Where sidecars find the operator; None: they are told of none.
    pub line: Option<LineSettings>,
}

/// The spec, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedCluster {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub version: ValkeyVersion,
    pub valkey_image: String,
    pub sidecar_image: String,
    /// The operator's own, whatever the pods have.
    pub operators_sidecar_image: String,
    /// The build of the sidecar that somebody asks for.
    pub sidecar_update: Option<String>,
    pub image_pull_secrets: Vec<LocalObjectReference>,
    pub master_count: u32,
    pub replicas_per_master: u32,
    pub storage: Option<Storage>,
    pub exporter: Option<Exporter>,
    pub read_service: bool,
    /// Valkey's parameters in its own words, see `NodeSettings`.
    pub parameters: BTreeMap<String, String>,
    /// What needs a restart to take effect.
    pub restart_inputs: Inputs,
    pub line: Option<LineSettings>,
    /// Fields that are passed on as they are.
    pub spec: EffectiveSpec,
    /// Where the values come from.
    pub origins: Origins,
}

/// The volume of each pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// What the spec asks for; volume claims that are smaller are to grow to this.
    pub size: Quantity,
    /// The size in the volume claim template: as it is in the live StatefulSet, where it cannot change.
    pub template_size: String,
    pub class: Option<String>,
}

/// The exporter, switched on.
#[derive(Clone, Debug, PartialEq)]
pub struct Exporter {
    pub image: String,
    pub resources: Resources,
    /// None: no ServiceMonitor.
    pub scrape_interval: Option<Duration>,
}

impl ValidatedCluster {
    /// `effective` is the spec with all defaults. `live` is what is in the cluster now: some of it must not change (see [`Live`]).
    pub fn parse(
        metadata: &ObjectMeta,
        effective: Effective,
        settings: &OperatorSettings,
        live: Option<&Live>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        let Effective { mut spec, origins } = effective;
        spec.security_context = security_context(spec.security_context, live);
        let version = problems.version(&spec, &origins);
        problems.text(&spec);
        problems.environment(&spec);
        problems.names(&spec);
        problems.sidecar(&spec);
        problems.network(&spec);
        problems.unsupported(&spec);
        let storage = problems.storage(&spec, live);
        let exporter = problems.exporter(&spec);
        problems.resources("spec.resources", &spec.resources);
        let counts = problems.counts(&spec);
        let identity = problems.identity(metadata);
        let (Some(version), Some((master_count, replicas_per_master)), Some((name, namespace, uid)), []) =
            (version, counts, identity, problems.list.as_slice())
        else {
            return Err(problems.list);
        };
        let parameters = crate::node_settings::parameters(&spec);
        let restart_inputs = restart::inputs(&spec, version, settings.line.as_ref());
        let sidecar_update = metadata.annotations.as_ref().and_then(|map| map.get(UPDATE_SIDECARS)).cloned();
        let kept = live.filter(|_| sidecar_update.as_deref() != Some(build_of(&settings.sidecar_image)));
        let sidecar_image = sidecar_image(&spec, settings, kept, &restart_inputs);
        Ok(Self {
            name,
            namespace,
            uid,
            version,
            valkey_image: reference(&spec.valkey_image.name, &spec.valkey_image.tag),
            sidecar_image,
            operators_sidecar_image: settings.sidecar_image.clone(),
            sidecar_update,
            image_pull_secrets: pull_secrets(&spec),
            master_count,
            replicas_per_master,
            storage,
            exporter,
            read_service: spec.read_service.enabled,
            parameters,
            restart_inputs,
            line: settings.line.clone(),
            spec,
            origins,
        })
    }

    /// Pods of the whole cluster.
    pub fn pod_count(&self) -> u32 {
        self.master_count * (1 + self.replicas_per_master)
    }
}

/// A newer operator alone must not change the pods: a cluster that names no sidecar image keeps the one it has, until a restart
/// is due for another reason or somebody asks for it.
fn sidecar_image(spec: &EffectiveSpec, settings: &OperatorSettings, live: Option<&Live>, inputs: &Inputs) -> String {
    if let Some(image) = &spec.sidecar_image {
        return reference(&image.name, &image.tag);
    }
    let kept = live.filter(|live| live.restart_revision.as_deref() == Some(restart::revision(inputs).as_str()));
    kept.and_then(|live| live.sidecar_image.clone()).unwrap_or_else(|| settings.sidecar_image.clone())
}

/// A cluster from before the ids could be left to the platform has the built-in ones, whatever an empty context means by now.
fn security_context(wanted: SecurityContext, live: Option<&Live>) -> SecurityContext {
    let has_ids = live.is_some_and(|live| !live.platform_ids);
    if has_ids && wanted.is_the_platforms() { SecurityContext::built_in() } else { wanted }
}

pub(crate) fn reference(name: &str, tag: &str) -> String {
    let sign = if tag.starts_with("sha256:") { '@' } else { ':' };
    format!("{name}{sign}{tag}")
}

fn pull_secrets(spec: &EffectiveSpec) -> Vec<LocalObjectReference> {
    let valkey = spec.valkey_image.image_pull_secrets.iter();
    let sidecar = spec.sidecar_image.iter().flat_map(|image| &image.image_pull_secrets);
    let exporter = spec.exporter.image.image_pull_secrets.iter().filter(|_| spec.exporter.enabled);
    let mut secrets: Vec<LocalObjectReference> = Vec::new();
    for secret in valkey.chain(sidecar).chain(exporter) {
        if !secrets.contains(secret) {
            secrets.push(secret.clone());
        }
    }
    secrets
}
