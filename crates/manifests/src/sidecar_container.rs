//! The container `sidecar`: starts before Valkey and ends after it. Pure.

use crate::probe::{self, Pace};
use crate::validated::ValidatedCluster;
use crate::valkey_container::{requirements, tcp};
use crate::{security, volumes};
use api::names::{container, environment as variable, port, probe as path};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ExecAction, Lifecycle, LifecycleHandler, ObjectFieldSelector,
    ResourceFieldSelector, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

pub fn container(cluster: &ValidatedCluster) -> Container {
    Container {
        name: container::SIDECAR.to_owned(),
        image: Some(cluster.sidecar_image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(vec!["valkey-sidecar".to_owned(), "run".to_owned()]),
        // An init container that is always restarted is a native sidecar.
        restart_policy: Some("Always".to_owned()),
        env: Some(environment(cluster)),
        ports: Some(vec![tcp(port::HEALTH_NAME, port::HEALTH)]),
        resources: Some(requirements(&cluster.spec.sidecar_resources).unwrap_or_else(default_resources)),
        lifecycle: Some(await_gate()),
        liveness_probe: Some(probe::sidecar_answers(path::SIDECAR, pace(10, 6))),
        volume_mounts: Some(volumes::sidecar_mounts(cluster)),
        security_context: Some(security::container()),
        ..Container::default()
    }
}

/// Valkey starts only after this. A startup probe would do too, a second later: the kubelet looks but once a second.
fn await_gate() -> Lifecycle {
    let command = Some(vec!["valkey-sidecar".to_owned(), "await".to_owned()]);
    let hook = LifecycleHandler { exec: Some(ExecAction { command }), ..LifecycleHandler::default() };
    Lifecycle { post_start: Some(hook), ..Lifecycle::default() }
}

fn pace(period_seconds: i32, failure_threshold: i32) -> Pace {
    Pace { period_seconds, timeout_seconds: 3, failure_threshold }
}

/// Memory is bounded, CPU is not: a throttled sidecar would answer probes late.
fn default_resources() -> ResourceRequirements {
    let memory = ("memory".to_owned(), Quantity("32Mi".to_owned()));
    let cpu = ("cpu".to_owned(), Quantity("10m".to_owned()));
    ResourceRequirements { requests: Some([cpu, memory.clone()].into()), limits: Some([memory].into()), claims: None }
}

fn environment(cluster: &ValidatedCluster) -> Vec<EnvVar> {
    let limited = cluster.spec.resources.limits.contains_key("memory");
    let mut variables = vec![
        from_field(variable::POD_NAME, "metadata.name"),
        from_field(variable::POD_NAMESPACE, "metadata.namespace"),
        from_field(variable::POD_IP, "status.podIP"),
        from_field(variable::POD_UID, "metadata.uid"),
        from_field(variable::NODE_NAME, "spec.nodeName"),
        EnvVar {
            name: variable::VALKEY_VERSION.to_owned(),
            value: Some(cluster.version.to_string()),
            ..EnvVar::default()
        },
    ];
    variables.extend((!cluster.spec.modules.is_empty()).then(|| modules(cluster)));
    // Without a limit the kubelet would give the node's memory instead.
    variables.extend(limited.then(memory_limit));
    variables
}

/// Beside the version: a pod that was made without modules never gets some by a restart in place, while others have none.
fn modules(cluster: &ValidatedCluster) -> EnvVar {
    let text = serde_json::to_string(&cluster.spec.modules).unwrap_or_default();
    // The kubelet would put the value of a variable in the place of $(NAME).
    EnvVar { name: variable::VALKEY_MODULES.to_owned(), value: Some(text.replace('$', "$$")), ..EnvVar::default() }
}

fn from_field(name: &str, path: &str) -> EnvVar {
    let field = ObjectFieldSelector { api_version: Some("v1".to_owned()), field_path: path.to_owned() };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value_from: Some(source), ..EnvVar::default() }
}

fn memory_limit() -> EnvVar {
    let field = ResourceFieldSelector {
        container_name: Some(container::VALKEY.to_owned()),
        resource: "limits.memory".to_owned(),
        divisor: Some(Quantity("1".to_owned())),
    };
    let source = EnvVarSource { resource_field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: variable::VALKEY_MEMORY_LIMIT.to_owned(), value_from: Some(source), ..EnvVar::default() }
}
