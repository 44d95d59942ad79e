//! The StatefulSet: one for all shards, because roles are not tied to ordinals. Pure.

use crate::shape::Shape;
use crate::validated::ValidatedCluster;
use crate::{metadata, pod, volumes};
use api::names;
use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec, StatefulSetUpdateStrategy,
};

pub fn stateful_set(cluster: &ValidatedCluster, shape: &Shape) -> StatefulSet {
    let metadata = metadata::object(cluster, cluster.name.clone());
    StatefulSet { metadata, spec: Some(spec(cluster, shape)), status: None }
}

fn spec(cluster: &ValidatedCluster, shape: &Shape) -> StatefulSetSpec {
    StatefulSetSpec {
        replicas: i32::try_from(shape.pods).ok(),
        selector: metadata::selector(cluster),
        service_name: Some(names::headless_service(&cluster.name)),
        template: pod::template(cluster),
        // All at once: nodes need each other to form, and a full restart must not wait for pod 0.
        pod_management_policy: Some("Parallel".to_owned()),
        // The operator alone decides which pod is replaced when.
        update_strategy: Some(StatefulSetUpdateStrategy { type_: Some("OnDelete".to_owned()), rolling_update: None }),
        volume_claim_templates: volumes::claim_templates(cluster),
        persistent_volume_claim_retention_policy: Some(keep_volumes()),
        ..StatefulSetSpec::default()
    }
}

/// Data outlives both scaling in and deleting the cluster.
fn keep_volumes() -> StatefulSetPersistentVolumeClaimRetentionPolicy {
    let retain = || Some("Retain".to_owned());
    StatefulSetPersistentVolumeClaimRetentionPolicy { when_deleted: retain(), when_scaled: retain() }
}
