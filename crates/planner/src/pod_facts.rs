//! What matters about a pod, taken from the pod as the API server shows it. Pure; the cache keeps these instead of whole pods.

use crate::last_words;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// One pod of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// UID of the StatefulSet that made it.
    pub controller: Option<String>,
    pub ip: Option<String>,
    /// The Kubernetes node it runs on.
    pub node: Option<String>,
    pub terminating: bool,
    /// All its init containers ran and its containers were started.
    pub running: bool,
    pub ready: bool,
    /// Seconds since the epoch.
    pub created: i64,
    /// Why the scheduler finds no node, and since when (seconds since the epoch).
    pub unschedulable: Option<(String, i64)>,
    /// Nobody gave it a group for its volumes.
    pub without_group: bool,
    pub containers: Vec<ContainerFacts>,
    /// As the pod asks for it.
    pub sidecar_image: Option<String>,
}

/// One container of a pod, init containers included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    pub name: String,
    pub image: String,
    pub ready: bool,
    /// Reason and message of the waiting state.
    pub waiting: Option<(String, String)>,
    /// How it last ended, if that was a failure, and when (seconds since the epoch).
    pub failure: Option<(String, i64)>,
    /// How many seconds it ran before that.
    pub ran: i64,
    pub restarts: i32,
}

impl PodFacts {
    pub fn of(pod: &Pod) -> PodFacts {
        let metadata = &pod.metadata;
        let status = pod.status.clone().unwrap_or_default();
        PodFacts {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            controller: controller(metadata),
            ip: status.pod_ip.clone(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            terminating: metadata.deletion_timestamp.is_some(),
            running: status.phase.as_deref() == Some("Running"),
            ready: condition(&status, "Ready").is_some_and(|condition| condition.status == "True"),
            created: metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            unschedulable: unschedulable(&status),
            without_group: pod.spec.as_ref().is_some_and(without_group),
            containers: containers(&status),
            sidecar_image: sidecar_image(pod),
        }
    }
}

fn sidecar_image(pod: &Pod) -> Option<String> {
    let mut containers = pod.spec.as_ref()?.init_containers.iter().flatten();
    containers.find(|container| container.name == api::names::container::SIDECAR)?.image.clone()
}

fn controller(metadata: &ObjectMeta) -> Option<String> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true) && owner.kind == "StatefulSet").map(|owner| owner.uid.clone())
}

fn without_group(spec: &PodSpec) -> bool {
    spec.security_context.as_ref().is_none_or(|context| context.fs_group.is_none())
}

fn condition<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

fn unschedulable(status: &PodStatus) -> Option<(String, i64)> {
    let condition = condition(status, "PodScheduled").filter(|condition| condition.status == "False")?;
    let since = condition.last_transition_time.as_ref().map_or(0, |time| time.0.as_second());
    Some((condition.message.clone().unwrap_or_default(), since))
}

fn containers(status: &PodStatus) -> Vec<ContainerFacts> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten()).map(container).collect()
}

fn container(status: &ContainerStatus) -> ContainerFacts {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let states = [status.state.as_ref(), status.last_state.as_ref()];
    ContainerFacts {
        name: status.name.clone(),
        image: status.image.clone(),
        ready: status.ready,
        waiting: waiting.map(|waiting| (text(&waiting.reason), text(&waiting.message))),
        failure: states.into_iter().flatten().find_map(failure),
        ran: states.into_iter().flatten().find_map(ran).unwrap_or_default(),
        restarts: status.restart_count,
    }
}

fn ran(state: &ContainerState) -> Option<i64> {
    let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    let (began, at) = ended.started_at.as_ref().zip(ended.finished_at.as_ref())?;
    Some(at.0.as_second() - began.0.as_second())
}

fn failure(state: &ContainerState) -> Option<(String, i64)> {
    let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    let reason = ended.reason.as_deref().unwrap_or("Error");
    // What a program printed last can be anything; why it could not be started is the kubelet's own text.
    let message = ended.message.as_deref().filter(|_| ["StartError", "ContainerCannotRun"].contains(&reason));
    let message = message.map(str::to_owned).or_else(|| last_words::of_module(ended.message.as_deref()?));
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    let at = ended.finished_at.as_ref().map_or(0, |time| time.0.as_second());
    Some((format!("exit code {} ({reason}){message}", ended.exit_code), at))
}
