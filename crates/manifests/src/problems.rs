//! What can be wrong with a spec, its defaults filled in: all of it is named, each with its field and the way out. Pure.
//! The schema refuses most of it earlier, but sees neither defaults nor what is live, and not objects stored under an older one.

use crate::live::Live;
use crate::network_problems;
use crate::validated::{Exporter, Storage, reference};
use api::certificates::names::is_certificate_secret;
use api::cluster::effective::{self, EffectiveSpec, Origins, Resources};
use api::cluster::{LEAST_SIDECAR_MEMORY, is_own_variable};
use api::names::container;
use api::parameters;
use api::quantity::Quantity;
use api::text;
use api::valkey_version::ValkeyVersion;
use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// The most nodes that Valkey's cluster bus is meant for.
const MOST_PODS: u32 = 1000;

/// One thing that is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Problem {
    pub field: String,
    /// What is wrong and the way out.
    pub problem: String,
}

#[derive(Default)]
pub struct Problems {
    pub list: Vec<Problem>,
}

impl Problems {
    fn add(&mut self, field: &str, problem: impl std::fmt::Display) {
        self.list.push(Problem { field: field.to_owned(), problem: problem.to_string() });
    }

    fn take<T, E: std::fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(field, error)).ok()
    }

    /// The version that was said for this tag, or for an earlier one, or else what the tag begins with.
    pub fn version(&mut self, spec: &EffectiveSpec, origins: &Origins) -> Option<ValkeyVersion> {
        let origin = |field: &str| origins.get(&format!("spec.valkeyImage.{field}"));
        let said = spec.valkey_image.version.as_ref().filter(|_| origin("version") >= origin("tag"));
        let (field, text) = said.map_or(("tag", &spec.valkey_image.tag), |version| ("version", version));
        let version = self.take(&format!("spec.valkeyImage.{field}"), ValkeyVersion::from_tag(text))?;
        if version < ValkeyVersion::OLDEST {
            self.add(&format!("spec.valkeyImage.{field}"), "must be Valkey 8.1 or newer: choose such an image");
            return None;
        }
        self.list.extend(config_problems(spec, version));
        Some(version)
    }

    pub fn network(&mut self, spec: &EffectiveSpec) {
        self.list.extend(network_problems::problems(&spec.network_policy));
    }

    pub fn text(&mut self, spec: &EffectiveSpec) {
        self.list.extend(text_problems(spec));
    }

    pub fn environment(&mut self, spec: &EffectiveSpec) {
        for variable in spec.env.iter().filter(|variable| is_own_variable(&variable.name)) {
            let field = format!("spec.env[{}]", variable.name);
            self.add(&field, "the operator uses it itself, or it has no effect: choose another name, or spec.config");
        }
        for variable in spec.env.iter().filter(|variable| reads_certificates(variable)) {
            let field = format!("spec.env[{}].valueFrom.secretKeyRef.name", variable.name);
            self.add(
                &field,
                "is called like the Secrets with certificates of clusters, which no container gets: name another one",
            );
        }
        for variable in spec.env.iter().filter(|variable| !spec.exporter.enabled && reads_exporter(variable)) {
            let field = format!("spec.env[{}].valueFrom.resourceFieldRef.containerName", variable.name);
            self.add(&field, "there is no exporter: name another container, or set spec.exporter.enabled");
        }
    }

    /// The StatefulSet would be refused, by a field that nobody wrote.
    pub fn names(&mut self, spec: &EffectiveSpec) {
        for (field, name) in
            [("priorityClassName", &spec.priority_class_name), ("runtimeClassName", &spec.runtime_class_name)]
        {
            if name.as_ref().is_some_and(|name| !text::is_object_name(name)) {
                self.add(
                    &format!("spec.{field}"),
                    "no class can have this name: write small letters, digits, '-' and '.'",
                );
            }
        }
    }

    /// With less the kernel could end it in the middle of a hand-over.
    pub fn sidecar(&mut self, spec: &EffectiveSpec) {
        self.resources("spec.sidecarResources", &spec.sidecar_resources);
        let limit = spec.sidecar_resources.limits.get("memory").and_then(|limit| Quantity::parse(&limit.0).ok());
        if limit.zip(Quantity::parse(LEAST_SIDECAR_MEMORY).ok()).is_some_and(|(limit, least)| limit < least) {
            let problem = format!("must be at least {LEAST_SIDECAR_MEMORY}: raise it");
            self.add("spec.sidecarResources.limits.memory", problem);
        }
    }

    /// What a later version may have taken: a cluster that is to be protected is not run open.
    pub fn unsupported(&mut self, spec: &EffectiveSpec) {
        for (field, value) in [("spec.tls", &spec.tls), ("spec.acl", &spec.acl)] {
            if value.is_some() {
                self.add(
                    field,
                    "is not supported by this version of the operator: leave it out, or run a version that has it",
                );
            }
        }
    }

    pub fn identity(&mut self, metadata: &ObjectMeta) -> Option<(String, String, String)> {
        let (name, namespace, uid) = (metadata.name.clone(), metadata.namespace.clone(), metadata.uid.clone());
        if name.is_none() || namespace.is_none() || uid.is_none() {
            self.add("metadata", "name, namespace and uid are missing: the object does not come from the API server");
        }
        Some((name?, namespace?, uid?))
    }

    pub fn counts(&mut self, spec: &EffectiveSpec) -> Option<(u32, u32)> {
        let masters = u32::try_from(spec.master_count).ok().filter(|count| (3..=1000).contains(count));
        let replicas = u32::try_from(spec.replicas_per_master).ok().filter(|count| *count <= 5);
        if masters.is_none() {
            self.add("spec.masterCount", "must be from 3 to 1000");
        }
        if replicas.is_none() {
            self.add("spec.replicasPerMaster", "must be from 0 to 5");
        }
        let (masters, replicas) = (masters?, replicas?);
        if masters * (1 + replicas) > MOST_PODS {
            let remedy = "lower one of them, or split the data over several clusters";
            self.add(
                "spec.masterCount",
                format!("with {replicas} replicas each makes more than {MOST_PODS} pods: {remedy}"),
            );
        }
        if spec.replication.min_replicas_to_write > spec.replicas_per_master {
            let problem = format!(
                "is higher than replicasPerMaster, {replicas}, so no write could succeed: lower it or add replicas"
            );
            self.add("spec.replication.minReplicasToWrite", problem);
        }
        Some((masters, replicas))
    }

    pub fn storage(&mut self, spec: &EffectiveSpec, live: Option<&Live>) -> Option<Storage> {
        if let Some(live) = live {
            self.volume(spec.pvc.as_ref(), live);
        }
        let storage = spec.pvc.as_ref()?;
        let size = self.take("spec.pvc.storageSize", Quantity::parse(&storage.storage_size))?;
        let live_size = live.and_then(|live| live.storage_size.clone());
        if live_size.as_ref().and_then(|live| Quantity::parse(live).ok()).is_some_and(|live| live > size) {
            let had = live_size.as_deref().unwrap_or_default();
            let remedy = "keep that, or create a new cluster and move the data there";
            self.add(
                "spec.pvc.storageSize",
                format!("the volumes of this cluster have {had}, and cannot shrink: {remedy}"),
            );
        }
        let template_size = live_size.unwrap_or_else(|| storage.storage_size.clone());
        Some(Storage { size, template_size, class: storage.storage_class_name.clone() })
    }

    /// Volumes cannot come, go or move, wherever the spec that asks for it comes from.
    fn volume(&mut self, wanted: Option<&effective::Storage>, live: &Live) {
        const REMEDY: &str = "create a new cluster and move the data there";
        match (wanted, &live.volume) {
            (Some(_), None) => {
                self.add("spec.pvc", format!("the pods of this cluster have no volumes: leave it out, or {REMEDY}"))
            }
            (None, Some(_)) => {
                self.add("spec.pvc", format!("the pods of this cluster have volumes: put it back, or {REMEDY}"))
            }
            (Some(wanted), Some(live)) if wanted.storage_class_name != live.class => {
                let class =
                    live.class.as_deref().map_or_else(|| "the default one".to_owned(), |class| format!("{class:?}"));
                let problem =
                    format!("the volumes of this cluster are of the StorageClass {class}: keep that, or {REMEDY}");
                self.add("spec.pvc.storageClassName", problem);
            }
            _ => {}
        }
    }

    pub fn exporter(&mut self, spec: &EffectiveSpec) -> Option<Exporter> {
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

    pub fn resources(&mut self, field: &str, resources: &Resources) {
        for (part, map) in [("requests", &resources.requests), ("limits", &resources.limits)] {
            for (name, quantity) in map {
                self.take(&format!("{field}.{part}.{name}"), Quantity::parse(&quantity.0));
            }
        }
        for (name, request) in &resources.requests {
            let limit = resources.limits.get(name).and_then(|limit| Quantity::parse(&limit.0).ok());
            if limit.zip(Quantity::parse(&request.0).ok()).is_some_and(|(limit, request)| request > limit) {
                self.add(
                    &format!("{field}.requests.{name}"),
                    "is higher than the limit: raise the limit or lower the request",
                );
            }
        }
    }
}

/// What would not arrive at Valkey or in the pods as it is written. The API server changes it, and so it would be put right for ever.
fn text_problems(spec: &EffectiveSpec) -> Vec<Problem> {
    let not_printed = |c: char| c != '\t' && !text::is_plain(c);
    let line = "is not printed: write the value in one line of printable characters";
    let config = unfit("spec.config", &spec.config, not_printed, line);
    let kept = "the API server does not keep: take it out";
    let kept_texts = [
        ("spec.annotations", &spec.annotations),
        ("spec.service.annotations", &spec.service.annotations),
        ("spec.readService.annotations", &spec.read_service.annotations),
        ("spec.serviceAccount.annotations", &spec.service_account.annotations),
        ("spec.env", &values(&spec.env)),
    ];
    let others = kept_texts.into_iter().flat_map(|(field, map)| unfit(field, map, |c| !text::is_kept(c), kept));
    config.into_iter().chain(others).collect()
}

fn values(variables: &[EnvVar]) -> BTreeMap<String, String> {
    variables.iter().filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?))).collect()
}

fn unfit(field: &str, map: &BTreeMap<String, String>, is_unfit: impl Fn(char) -> bool, why: &str) -> Vec<Problem> {
    let problem = |(name, value): (&String, &String)| {
        let code = u32::from(value.chars().find(|c| is_unfit(*c))?);
        let problem = format!("holds U+{code:04X}, which {why}");
        Some(Problem { field: format!("{field}[{name}]"), problem })
    };
    map.iter().filter_map(problem).collect()
}

fn config_problems(spec: &EffectiveSpec, version: ValkeyVersion) -> Vec<Problem> {
    let problem = |name: &String| {
        let refused = parameters::refusal(name);
        let missing =
            || format!("Valkey {version} does not have {name}: leave it out or choose another valkeyImage.tag");
        let elsewhere = parameters::find(name).is_some_and(|parameter| parameter.facts(version).is_none());
        refused.or_else(|| elsewhere.then(missing))
    };
    let problems = spec.config.keys().filter_map(|name| Some((name, problem(name)?)));
    problems.map(|(name, problem)| Problem { field: format!("spec.config[{name}]"), problem }).collect()
}

fn reads_exporter(variable: &EnvVar) -> bool {
    let source = variable.value_from.as_ref().and_then(|source| source.resource_field_ref.as_ref());
    source.is_some_and(|resource| resource.container_name.as_deref() == Some(container::EXPORTER))
}

/// Who may make a cluster need not be allowed to read these.
fn reads_certificates(variable: &EnvVar) -> bool {
    let source = variable.value_from.as_ref().and_then(|source| source.secret_key_ref.as_ref());
    source.is_some_and(|secret| is_certificate_secret(&secret.name))
}
