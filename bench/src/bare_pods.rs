//! The floor under six pods of a cluster: as many bare ones of the same images, with a native sidecar, and nobody who makes anything of
//! them. IO.

use crate::{
    cluster::PODS,
    wait::{Objects, all_ready, wait_for},
};
use anyhow::{Context, Result};
use api::names::{container, port};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use std::time::{Duration, Instant};

const LABELS: &str = "bench.valkey.io/floor=pods";

/// What the pods of the measured cluster run.
pub struct Images {
    valkey: String,
    sidecar: String,
}

impl Images {
    pub fn of(pod: &Pod) -> Result<Self> {
        let spec = pod.spec.as_ref().context("a pod without a spec")?;
        let image = |name: &str| {
            let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
            let found = all.find(|container| container.name == name);
            found.and_then(|container| container.image.clone()).with_context(|| format!("no container {name}"))
        };
        Ok(Self { valkey: image(container::VALKEY)?, sidecar: image(container::SIDECAR)? })
    }
}

/// From the first request until all are Ready.
pub async fn start(pods: &Api<Pod>, images: &Images) -> Result<Duration> {
    let began = Instant::now();
    for number in 0..PODS {
        pods.create(&PostParams::default(), &bare_pod(number, images)?).await.context("create a bare pod")?;
    }
    wait_for(pods, LABELS, "the bare pods to be Ready", all_ready(PODS)).await?;
    Ok(began.elapsed())
}

/// From the request until none is left.
pub async fn end(pods: &Api<Pod>, how: &DeleteParams) -> Result<Duration> {
    let began = Instant::now();
    let _accepted = pods.delete_collection(how, &ListParams::default().labels(LABELS)).await?;
    wait_for(pods, LABELS, "the bare pods to be gone", Objects::is_empty).await?;
    Ok(began.elapsed())
}

fn bare_pod(number: usize, images: &Images) -> Result<Pod> {
    let sidecar = ["valkey-sidecar", "run", "--pod-name=floor", "--pod-namespace=floor", "--pod-ip=127.0.0.1"];
    let valkey = ["valkey-server", "--cluster-enabled", "yes", "--save", "", "--dir", "/tmp"];
    let probe = |port: i32| json!({"tcpSocket": {"port": port}, "periodSeconds": 1});
    let restricted = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("floor-{number}"), "labels": {"bench.valkey.io/floor": "pods"}},
        "spec": {
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 999, "seccompProfile": {"type": "RuntimeDefault"}},
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"bench.valkey.io/floor": "pods"}},
            }],
            "initContainers": [{
                "name": container::SIDECAR, "image": images.sidecar, "restartPolicy": "Always", "command": sidecar,
                "startupProbe": probe(port::HEALTH), "securityContext": restricted,
            }],
            "containers": [{
                "name": container::VALKEY, "image": images.valkey, "command": valkey,
                "readinessProbe": probe(port::VALKEY), "securityContext": restricted,
            }],
        },
    });
    Ok(serde_json::from_value(pod)?)
}
