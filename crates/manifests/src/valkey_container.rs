//! The container `valkey`. Pure.

use crate::probe::{self, Pace};
use crate::validated::ValidatedCluster;
use crate::{environment, security, volumes};
use api::cluster::effective::Resources;
use api::names::{container, directory, port, probe as path};
use k8s_openapi::api::core::v1::{Container, ContainerPort, Lifecycle, LifecycleHandler, Probe, ResourceRequirements};

pub fn container(cluster: &ValidatedCluster) -> Container {
    Container {
        name: container::VALKEY.to_owned(),
        image: Some(cluster.valkey_image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(vec!["valkey-server".to_owned(), format!("{}/valkey.conf", directory::RUN)]),
        // Where the data is stands in the configuration; a server that got none must not find it.
        working_dir: Some(directory::TMP.to_owned()),
        env: Some(environment::plain(&cluster.spec.env)).filter(|list| !list.is_empty()),
        ports: Some(vec![tcp(port::VALKEY_NAME, port::VALKEY), tcp(port::BUS_NAME, port::BUS)]),
        resources: requirements(&cluster.spec.resources),
        // Answered as soon as the process speaks at all, loading included; then liveness takes over.
        startup_probe: Some(probe::sidecar_answers(path::STARTUP, pace(1, 3, 3600))),
        liveness_probe: Some(liveness()),
        readiness_probe: Some(probe::sidecar_answers(path::READINESS, pace(2, 3, 3))),
        lifecycle: Some(hand_over_before_the_end(cluster)),
        volume_mounts: Some(volumes::shared_mounts()),
        termination_message_policy: last_words(cluster),
        security_context: Some(security::container()),
        ..Container::default()
    }
}

/// A Valkey that cannot load a module says which and why only in its log, as the last thing. The template of clusters without modules
/// stays as it was.
fn last_words(cluster: &ValidatedCluster) -> Option<String> {
    (!cluster.spec.modules.is_empty()).then(|| "FallbackToLogsOnError".to_owned())
}

/// A process that answers nothing does not hear SIGTERM either, so the pod's long grace period would be waited in vain.
fn liveness() -> Probe {
    Probe { termination_grace_period_seconds: Some(30), ..probe::sidecar_answers(path::LIVENESS, pace(10, 5, 3)) }
}

fn pace(period_seconds: i32, timeout_seconds: i32, failure_threshold: i32) -> Pace {
    Pace { period_seconds, timeout_seconds, failure_threshold }
}

/// With the cluster's UID, which nobody knows who may not read the cluster: another tenant's probe could ask this port as well.
fn hand_over_before_the_end(cluster: &ValidatedCluster) -> Lifecycle {
    let path = path::pre_stop(&cluster.uid);
    let ask_sidecar = LifecycleHandler { http_get: Some(probe::get(&path, port::HEALTH)), ..Default::default() };
    Lifecycle { pre_stop: Some(ask_sidecar), ..Lifecycle::default() }
}

pub fn tcp(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// None when nothing is asked for, so that a LimitRange of the namespace can fill it in.
pub fn requirements(resources: &Resources) -> Option<ResourceRequirements> {
    let [requests, limits] =
        [&resources.requests, &resources.limits].map(|map| Some(map.clone()).filter(|map| !map.is_empty()));
    (requests.is_some() || limits.is_some()).then_some(ResourceRequirements { requests, limits, claims: None })
}
