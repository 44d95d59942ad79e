//! A ValkeyCluster that was read once and for all: everything that can be wrong in it is said here. Pure; the operator calls it.

use crate::live::Live;
use crate::restart::{self, Inputs};
use api::cluster::{Resources, ValkeyCluster, ValkeyClusterSpec};
use api::duration::Duration;
use api::node_settings::LineSettings;
use api::parameters;
use api::quantity::Quantity;
use api::valkey_version::ValkeyVersion;
use k8s_openapi::api::core::v1::LocalObjectReference;
use std::collections::BTreeMap;

/// What the operator itself was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorSettings {
    /// Full reference of the sidecar image for clusters that name none.
    pub sidecar_image: String,
    /// Where sidecars find the operator; None: they are told of none.
    pub line: Option<LineSettings>,
}

/// One thing that is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Problem {
    pub field: String,
    /// What is wrong and the way out.
    pub problem: String,
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
    pub spec: ValkeyClusterSpec,
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
    /// `live` is what is in the cluster now: some of it must not change (see [`Live`]).
    pub fn parse(
        cluster: &ValkeyCluster,
        settings: &OperatorSettings,
        live: Option<&Live>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        let spec = &cluster.spec;
        let version = problems.take("spec.valkeyImage.tag", ValkeyVersion::from_tag(&spec.valkey_image.tag));
        problems.list.extend(version.iter().flat_map(|version| config_problems(spec, *version)));
        let storage = problems.storage(spec, live);
        let exporter = problems.exporter(spec);
        problems.resources("spec.resources", &spec.resources);
        let counts = problems.counts(spec);
        let identity = problems.identity(cluster);
        let (Some(version), Some((master_count, replicas_per_master)), Some((name, namespace, uid)), []) =
            (version, counts, identity, problems.list.as_slice())
        else {
            return Err(problems.list);
        };
        let parameters = crate::node_settings::parameters(spec);
        let restart_inputs = restart::inputs(spec, version, settings.line.as_ref());
        let sidecar_image = sidecar_image(spec, settings, live, &restart_inputs);
        Ok(Self {
            name,
            namespace,
            uid,
            version,
            valkey_image: reference(&spec.valkey_image.name, &spec.valkey_image.tag),
            sidecar_image,
            image_pull_secrets: pull_secrets(spec),
            master_count,
            replicas_per_master,
            storage,
            exporter,
            read_service: spec.read_service.enabled,
            parameters,
            restart_inputs,
            line: settings.line.clone(),
            spec: spec.clone(),
        })
    }

    /// Pods of the whole cluster.
    pub fn pod_count(&self) -> u32 {
        self.master_count * (1 + self.replicas_per_master)
    }
}

#[derive(Default)]
struct Problems {
    list: Vec<Problem>,
}

impl Problems {
    fn add(&mut self, field: &str, problem: impl std::fmt::Display) {
        self.list.push(Problem { field: field.to_owned(), problem: problem.to_string() });
    }

    fn take<T, E: std::fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(field, error)).ok()
    }

    fn identity(&mut self, cluster: &ValkeyCluster) -> Option<(String, String, String)> {
        let metadata = &cluster.metadata;
        let (name, namespace, uid) = (metadata.name.clone(), metadata.namespace.clone(), metadata.uid.clone());
        if name.is_none() || namespace.is_none() || uid.is_none() {
            self.add("metadata", "name, namespace and uid are missing: the object does not come from the API server");
        }
        Some((name?, namespace?, uid?))
    }

    fn counts(&mut self, spec: &ValkeyClusterSpec) -> Option<(u32, u32)> {
        let masters = u32::try_from(spec.master_count).ok().filter(|count| (3..=1000).contains(count));
        let replicas = u32::try_from(spec.replicas_per_master).ok().filter(|count| *count <= 5);
        if masters.is_none() {
            self.add("spec.masterCount", "must be from 3 to 1000");
        }
        if replicas.is_none() {
            self.add("spec.replicasPerMaster", "must be from 0 to 5");
        }
        Some((masters?, replicas?))
    }

    fn storage(&mut self, spec: &ValkeyClusterSpec, live: Option<&Live>) -> Option<Storage> {
        let storage = spec.pvc.as_ref()?;
        let size = self.take("spec.pvc.storageSize", Quantity::parse(&storage.storage_size))?;
        let live_size = live.and_then(|live| live.storage_size.clone());
        let template_size = live_size.unwrap_or_else(|| storage.storage_size.clone());
        Some(Storage { size, template_size, class: storage.storage_class_name.clone() })
    }

    fn exporter(&mut self, spec: &ValkeyClusterSpec) -> Option<Exporter> {
        let exporter = spec.exporter.enabled.then_some(&spec.exporter)?;
        self.resources("spec.exporter.resources", &exporter.resources);
        let monitor = &exporter.service_monitor;
        let scrape_interval = if monitor.enabled {
            self.take("spec.exporter.serviceMonitor.interval", monitor.interval.parse())
        } else {
            None
        };
        let image = reference(&exporter.image.name, &exporter.image.tag);
        Some(Exporter { image, resources: exporter.resources.clone(), scrape_interval })
    }

    fn resources(&mut self, field: &str, resources: &Resources) {
        for (part, map) in [("requests", &resources.requests), ("limits", &resources.limits)] {
            for (name, quantity) in map {
                self.take(&format!("{field}.{part}.{name}"), Quantity::parse(&quantity.0));
            }
        }
    }
}

/// The schema refuses these too, but not for objects that were stored under an older schema.
fn config_problems(spec: &ValkeyClusterSpec, version: ValkeyVersion) -> Vec<Problem> {
    let problem = |name: &String| {
        let refused = parameters::refusal(name);
        let missing =
            || format!("Valkey {version} does not have {name}: leave it out or choose another valkeyImage.tag");
        let known = parameters::find(name).is_some_and(|parameter| parameter.facts(version).is_some());
        refused.or_else(|| (!known).then(missing))
    };
    let problems = spec.config.keys().filter_map(|name| Some((name, problem(name)?)));
    problems.map(|(name, problem)| Problem { field: format!("spec.config[{name}]"), problem }).collect()
}

/// A newer operator alone must not change the pods: a cluster that names no sidecar image keeps the one it has, until a restart
/// is due for another reason.
fn sidecar_image(
    spec: &ValkeyClusterSpec,
    settings: &OperatorSettings,
    live: Option<&Live>,
    inputs: &Inputs,
) -> String {
    if let Some(image) = &spec.sidecar_image {
        return reference(&image.name, &image.tag);
    }
    let kept = live.filter(|live| live.restart_revision.as_deref() == Some(restart::revision(inputs).as_str()));
    kept.and_then(|live| live.sidecar_image.clone()).unwrap_or_else(|| settings.sidecar_image.clone())
}

fn reference(name: &str, tag: &str) -> String {
    format!("{name}:{tag}")
}

fn pull_secrets(spec: &ValkeyClusterSpec) -> Vec<LocalObjectReference> {
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
