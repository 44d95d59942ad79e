//! Volumes and mounts. `data`, `tmp` and `run` are shared by Valkey and the sidecar; settings, certificate and token are the
//! sidecar's alone. Pure.

use crate::validated::{Storage, ValidatedCluster};
use api::names::{self, directory};
use api::node_settings::SETTINGS_DIRECTORY;
use k8s_openapi::api::core::v1::{
    CSIVolumeSource, ConfigMapVolumeSource, EmptyDirVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    ProjectedVolumeSource, SecretVolumeSource, ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const DATA: &str = "data";
const TMP: &str = "tmp";
const RUN: &str = "run";
const SETTINGS: &str = "settings";
const MTLS: &str = "operator-mtls";
const WORKLOAD_API: &str = "workload-api";
const WORKLOAD_API_DRIVER: &str = "csi.spiffe.io";
const LINE_TOKEN: &str = "operator-token";
/// Readable by the pod's group alone.
const PRIVATE: i32 = 0o440;
/// Readable by every user of the containers that mount it, and only the sidecar does: the node shows these files to nobody else.
const IN_CONTAINER: i32 = 0o444;
/// The kubelet renews it at four fifths; one is shown per connection.
const TOKEN_SECONDS: i64 = 3600;
/// valkey.conf and a socket; counted against the containers' memory.
const RUN_SIZE: &str = "4Mi";

pub fn volumes(cluster: &ValidatedCluster) -> Vec<Volume> {
    let data = cluster.storage.is_none().then(|| empty_directory(DATA, EmptyDirVolumeSource::default()));
    let memory =
        EmptyDirVolumeSource { medium: Some("Memory".to_owned()), size_limit: Some(Quantity(RUN_SIZE.to_owned())) };
    let others = [
        empty_directory(TMP, EmptyDirVolumeSource::default()),
        empty_directory(RUN, memory),
        settings(&cluster.name),
        identity(cluster),
        token(cluster),
    ];
    data.into_iter().chain(others).collect()
}

fn empty_directory(name: &str, source: EmptyDirVolumeSource) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(source), ..Volume::default() }
}

fn settings(cluster: &str) -> Volume {
    let source = ConfigMapVolumeSource { name: names::config_map(cluster), ..ConfigMapVolumeSource::default() };
    Volume { name: SETTINGS.to_owned(), config_map: Some(source), ..Volume::default() }
}

/// Where the sidecar has its certificate from.
fn identity(cluster: &ValidatedCluster) -> Volume {
    if workload_api(cluster).is_some() { workload_api_socket() } else { certificate(cluster) }
}

/// The directory at which the sidecar finds a Workload API, if its certificate comes from there.
fn workload_api(cluster: &ValidatedCluster) -> Option<&str> {
    cluster.line.as_ref()?.workload_api_directory()
}

/// SPIFFE's driver binds the socket of the node's agent into the pod; read-only, as it asks for.
fn workload_api_socket() -> Volume {
    let source =
        CSIVolumeSource { driver: WORKLOAD_API_DRIVER.to_owned(), read_only: Some(true), ..CSIVolumeSource::default() };
    Volume { name: WORKLOAD_API.to_owned(), csi: Some(source), ..Volume::default() }
}

/// Optional: a missing certificate costs the line to the operator, and never keeps Valkey from starting.
fn certificate(cluster: &ValidatedCluster) -> Volume {
    let source = SecretVolumeSource {
        secret_name: Some(names::mtls_secret(&cluster.name)),
        default_mode: Some(mode(cluster)),
        optional: Some(true),
        items: None,
    };
    Volume { name: MTLS.to_owned(), secret: Some(source), ..Volume::default() }
}

/// Where the platform gives the pods no group, the files belong to root's, and the sidecar is not in it.
fn mode(cluster: &ValidatedCluster) -> i32 {
    if cluster.spec.security_context.fs_group.is_some() { PRIVATE } else { IN_CONTAINER }
}

fn token(cluster: &ValidatedCluster) -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(names::LINE_AUDIENCE.to_owned()),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: names::LINE_TOKEN_FILE.to_owned(),
    };
    let sources = vec![VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() }];
    let source = ProjectedVolumeSource { default_mode: Some(mode(cluster)), sources: Some(sources) };
    Volume { name: LINE_TOKEN.to_owned(), projected: Some(source), ..Volume::default() }
}

pub fn shared_mounts() -> Vec<VolumeMount> {
    [(DATA, directory::DATA), (TMP, directory::TMP), (RUN, directory::RUN)].map(|(name, path)| mount(name, path)).into()
}

pub fn sidecar_mounts(cluster: &ValidatedCluster) -> Vec<VolumeMount> {
    let identity = workload_api(cluster).map_or((MTLS, directory::MTLS), |directory| (WORKLOAD_API, directory));
    let own = [(SETTINGS, SETTINGS_DIRECTORY), identity, (LINE_TOKEN, directory::LINE_TOKEN)];
    let own = own.map(|(name, path)| VolumeMount { read_only: Some(true), ..mount(name, path) });
    shared_mounts().into_iter().chain(own).collect()
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
