//! Volumes and mounts. `data`, `tmp` and `run` are shared by Valkey and the sidecar; the settings are the sidecar's alone. Pure.

use crate::validated::{Storage, ValidatedCluster};
use api::names::{self, directory};
use api::node_settings::SETTINGS_DIRECTORY;
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec, Volume, VolumeMount,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const DATA: &str = "data";
const TMP: &str = "tmp";
const RUN: &str = "run";
const SETTINGS: &str = "settings";
/// valkey.conf and a socket; counted against the containers' memory.
const RUN_SIZE: &str = "4Mi";

pub fn volumes(cluster: &ValidatedCluster) -> Vec<Volume> {
    let data = cluster.storage.is_none().then(|| empty_directory(DATA, EmptyDirVolumeSource::default()));
    let memory =
        EmptyDirVolumeSource { medium: Some("Memory".to_owned()), size_limit: Some(Quantity(RUN_SIZE.to_owned())) };
    let others =
        [empty_directory(TMP, EmptyDirVolumeSource::default()), empty_directory(RUN, memory), settings(&cluster.name)];
    data.into_iter().chain(others).collect()
}

fn empty_directory(name: &str, source: EmptyDirVolumeSource) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(source), ..Volume::default() }
}

fn settings(cluster: &str) -> Volume {
    let source = ConfigMapVolumeSource { name: names::config_map(cluster), ..ConfigMapVolumeSource::default() };
    Volume { name: SETTINGS.to_owned(), config_map: Some(source), ..Volume::default() }
}

pub fn shared_mounts() -> Vec<VolumeMount> {
    [(DATA, directory::DATA), (TMP, directory::TMP), (RUN, directory::RUN)].map(|(name, path)| mount(name, path)).into()
}

pub fn sidecar_mounts() -> Vec<VolumeMount> {
    let settings = VolumeMount { read_only: Some(true), ..mount(SETTINGS, SETTINGS_DIRECTORY) };
    shared_mounts().into_iter().chain([settings]).collect()
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

pub fn claim_templates(cluster: &ValidatedCluster) -> Option<Vec<PersistentVolumeClaim>> {
    cluster.storage.as_ref().map(|storage| vec![claim_template(cluster, storage)])
}

/// Only labels that never change, for the template cannot be edited; by the last one the operator finds the claims.
fn claim_template(cluster: &ValidatedCluster, storage: &Storage) -> PersistentVolumeClaim {
    let size = ("storage".to_owned(), Quantity(storage.template_size.clone()));
    let mut labels = names::selector(&cluster.name);
    labels.insert(names::label::MANAGED_BY.to_owned(), names::MANAGER.to_owned());
    PersistentVolumeClaim {
        metadata: ObjectMeta { name: Some(DATA.to_owned()), labels: Some(labels), ..ObjectMeta::default() },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements { requests: Some([size].into()), limits: None }),
            storage_class_name: storage.class.clone(),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}
