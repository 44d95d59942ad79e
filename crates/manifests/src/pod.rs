//! The pod template: the sidecar as a native sidecar, Valkey, and the exporter if wanted. Pure.

use crate::validated::ValidatedCluster;
use crate::{exporter_container, metadata, scheduling, security, sidecar_container, valkey_container, volumes};
use api::names;
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

/// Time for handing over to a replica and for the last snapshot of a large data set; a pod that is done earlier ends earlier.
const GRACE_SECONDS: i64 = 300;

pub fn template(cluster: &ValidatedCluster) -> PodTemplateSpec {
    PodTemplateSpec { metadata: Some(metadata::template(cluster)), spec: Some(spec(cluster)) }
}

fn spec(cluster: &ValidatedCluster) -> PodSpec {
    let exporter = cluster.exporter.as_ref().map(exporter_container::container);
    PodSpec {
        init_containers: Some(vec![sidecar_container::container(cluster)]),
        containers: [valkey_container::container(cluster)].into_iter().chain(exporter).collect(),
        volumes: Some(volumes::volumes(cluster)),
        affinity: Some(scheduling::affinity(cluster)),
        topology_spread_constraints: Some(scheduling::spread(cluster)).filter(|list| !list.is_empty()),
        tolerations: Some(cluster.spec.tolerations.clone()).filter(|list| !list.is_empty()),
        priority_class_name: cluster.spec.priority_class_name.clone(),
        runtime_class_name: cluster.spec.runtime_class_name.clone(),
        image_pull_secrets: Some(cluster.image_pull_secrets.clone()).filter(|list| !list.is_empty()),
        security_context: Some(security::pod(&cluster.spec.security_context)),
        service_account_name: Some(names::service_account(&cluster.name)),
        automount_service_account_token: Some(false),
        // A namespace with many Services would otherwise fill the environment.
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        ..PodSpec::default()
    }
}
