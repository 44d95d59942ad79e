//! Small workloads for tests, made of the Valkey image and fit for Pod Security `restricted`. Pure.
//! A builder gives a plain object; a test changes what it needs before it applies it.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            Capabilities, Container, ContainerPort, PersistentVolumeClaim, PersistentVolumeClaimSpec,
            PersistentVolumeClaimVolumeSource, Pod, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
            ResourceRequirements, SeccompProfile, SecurityContext, Service, ServicePort, ServiceSpec, TCPSocketAction,
            Volume, VolumeMount, VolumeResourceRequirements,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use std::collections::BTreeMap;

pub const IMAGE: &str = "docker.io/valkey/valkey:9.1";
pub const PORT: u16 = 6379;
const USER: i64 = 999;

/// The selector of everything built here under `name`.
pub fn selector(name: &str) -> String {
    format!("app={name}")
}

/// A server that answers `PING` on [`PORT`], with `/data` and nothing kept.
pub fn echo_pod(name: &str) -> Pod {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..labelled(name) };
    Pod { metadata, spec: Some(echo_spec()), ..Pod::default() }
}

pub fn echo_deployment(name: &str, replicas: i32) -> Deployment {
    let selector = LabelSelector { match_labels: Some(labels(name)), ..LabelSelector::default() };
    let template = PodTemplateSpec { metadata: Some(labelled(name)), spec: Some(echo_spec()) };
    let spec = DeploymentSpec { replicas: Some(replicas), selector, template, ..DeploymentSpec::default() };
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..labelled(name) };
    Deployment { metadata, spec: Some(spec), ..Deployment::default() }
}

/// In front of all pods built here under the same name.
pub fn echo_service(name: &str) -> Service {
    let port =
        ServicePort { port: PORT.into(), target_port: Some(IntOrString::Int(PORT.into())), ..ServicePort::default() };
    let spec = ServiceSpec { selector: Some(labels(name)), ports: Some(vec![port]), ..ServiceSpec::default() };
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..labelled(name) };
    Service { metadata, spec: Some(spec), ..Service::default() }
}

/// A claim on the cluster's default storage class.
pub fn claim(name: &str, size: &str) -> PersistentVolumeClaim {
    let requests = BTreeMap::from([("storage".to_owned(), Quantity(size.to_owned()))]);
    let resources = VolumeResourceRequirements { requests: Some(requests), ..VolumeResourceRequirements::default() };
    let access_modes = Some(vec!["ReadWriteOnce".to_owned()]);
    let spec =
        PersistentVolumeClaimSpec { access_modes, resources: Some(resources), ..PersistentVolumeClaimSpec::default() };
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    PersistentVolumeClaim { metadata, spec: Some(spec), ..PersistentVolumeClaim::default() }
}

/// As [`echo_pod`], with the claim mounted at `/data`.
pub fn echo_pod_with_claim(name: &str, claim: &str) -> Pod {
    let mut pod = echo_pod(name);
    if let Some(spec) = &mut pod.spec {
        let source = PersistentVolumeClaimVolumeSource { claim_name: claim.to_owned(), ..Default::default() };
        let volume = Volume { name: "data".to_owned(), persistent_volume_claim: Some(source), ..Volume::default() };
        spec.volumes = Some(vec![volume]);
    }
    pod
}

/// As [`echo_pod`], killed when it takes more memory than this.
pub fn limited(name: &str, memory: &str) -> Pod {
    let mut pod = echo_pod(name);
    let limits = BTreeMap::from([("memory".to_owned(), Quantity(memory.to_owned()))]);
    for container in pod.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
        container.resources = Some(ResourceRequirements { limits: Some(limits.clone()), ..Default::default() });
    }
    pod
}

/// Puts the pod on a node by label, so that the scheduler still has its say.
pub fn on_node(mut pod: Pod, node: &str) -> Pod {
    if let Some(spec) = &mut pod.spec {
        spec.node_selector = Some(BTreeMap::from([("kubernetes.io/hostname".to_owned(), node.to_owned())]));
    }
    pod
}

fn echo_spec() -> PodSpec {
    PodSpec {
        containers: vec![echo_container()],
        security_context: Some(pod_security()),
        // Nothing here talks to the API server.
        automount_service_account_token: Some(false),
        termination_grace_period_seconds: Some(5),
        volumes: Some(vec![Volume {
            name: "data".to_owned(),
            empty_dir: Some(Default::default()),
            ..Volume::default()
        }]),
        ..PodSpec::default()
    }
}

fn echo_container() -> Container {
    let port = PORT.to_string();
    let command = ["valkey-server", "--port", &port, "--save", "", "--dir", "/data", "--protected-mode", "no"];
    Container {
        name: "echo".to_owned(),
        image: Some(IMAGE.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(command.map(str::to_owned).to_vec()),
        ports: Some(vec![ContainerPort { container_port: PORT.into(), ..ContainerPort::default() }]),
        readiness_probe: Some(readiness()),
        security_context: Some(container_security()),
        volume_mounts: Some(vec![VolumeMount {
            name: "data".to_owned(),
            mount_path: "/data".to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

fn readiness() -> Probe {
    let tcp_socket = TCPSocketAction { port: IntOrString::Int(PORT.into()), ..TCPSocketAction::default() };
    Probe { tcp_socket: Some(tcp_socket), period_seconds: Some(1), ..Probe::default() }
}

fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), ..SeccompProfile::default() }),
        ..PodSecurityContext::default()
    }
}

fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Capabilities::default() }),
        ..SecurityContext::default()
    }
}

fn labels(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), name.to_owned())])
}

fn labelled(name: &str) -> ObjectMeta {
    ObjectMeta { labels: Some(labels(name)), ..ObjectMeta::default() }
}
