//! The PersistentVolume of a disk, and what its state asks of us. Pure; called by `provision` and `reclaim`.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;

use super::claim::Order;
use super::{PROVISIONER, size};

const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Keeps the object until its disk is gone, also when someone deletes the object by hand.
pub const FINALIZER: &str = "testbed.valkey.io/disk";

#[derive(Debug, Eq, PartialEq)]
pub enum Care {
    NotOurs,
    KeepMounted,
    /// Delete the object; its finalizer then brings it back as `Dispose`.
    Release,
    Dispose {
        destroy: bool,
    },
}

pub fn care(volume: &PersistentVolume) -> Care {
    let annotations = volume.metadata.annotations.as_ref();
    if annotations.and_then(|all| all.get(PROVISIONED_BY)).map(String::as_str) != Some(PROVISIONER) {
        return Care::NotOurs;
    }
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let destroy = reclaim_policy(volume) == Some("Delete");
    let deleted = volume.metadata.deletion_timestamp.is_some();
    match phase {
        // A deleted volume that a claim still uses stays until the claim has gone.
        Some("Bound") => Care::KeepMounted,
        _ if deleted && has_finalizer(volume) => Care::Dispose { destroy },
        _ if deleted => Care::NotOurs,
        Some("Released") if destroy => Care::Release,
        _ => Care::KeepMounted,
    }
}

fn reclaim_policy(volume: &PersistentVolume) -> Option<&str> {
    volume.spec.as_ref()?.persistent_volume_reclaim_policy.as_deref()
}

fn has_finalizer(volume: &PersistentVolume) -> bool {
    volume.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
}

/// Whether an existing volume of the same name was made for this claim, in an earlier attempt.
pub fn belongs_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| reference.uid.is_some() && reference.uid == claim.metadata.uid)
}

/// A `local` volume, because the kubelet then applies fsGroup and the scheduler keeps its pods on the node.
pub fn build(
    order: &Order,
    path: &str,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> Result<PersistentVolume, serde_json::Error> {
    let (meta, spec) = (&claim.metadata, claim.spec.as_ref());
    let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [order.node]});
    serde_json::from_value(json!({
        "metadata": {
            "name": order.volume,
            "annotations": {PROVISIONED_BY: PROVISIONER},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "accessModes": spec.and_then(|spec| spec.access_modes.as_ref()),
            "capacity": {"storage": size::quantity(order.bytes)},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version},
            "local": {"path": path},
            "mountOptions": class.mount_options,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": class.metadata.name,
            "volumeMode": "Filesystem",
        },
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn volume(policy: &str, phase: &str, deleted: bool) -> PersistentVolume {
        let mut volume = json!({
            "metadata": {"name": "pvc-u1", "annotations": {PROVISIONED_BY: PROVISIONER}, "finalizers": [FINALIZER]},
            "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"uid": "u1"}},
            "status": {"phase": phase},
        });
        if deleted {
            volume["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(volume).unwrap()
    }

    #[test]
    fn only_an_unused_volume_with_policy_delete_loses_its_disk() {
        let table = [
            (("Delete", "Bound", false), Care::KeepMounted),
            (("Delete", "Bound", true), Care::KeepMounted),
            (("Delete", "Released", false), Care::Release),
            (("Delete", "Released", true), Care::Dispose { destroy: true }),
            (("Delete", "Available", false), Care::KeepMounted),
            (("Retain", "Released", false), Care::KeepMounted),
            (("Retain", "Released", true), Care::Dispose { destroy: false }),
        ];
        for ((policy, phase, deleted), expected) in table {
            assert_eq!(care(&volume(policy, phase, deleted)), expected, "{policy} {phase} deleted={deleted}");
        }
    }

    #[test]
    fn volumes_of_others_and_volumes_already_disposed_of_are_left_alone() {
        let mut foreign = volume("Delete", "Released", false);
        foreign.metadata.annotations = None;
        assert_eq!(care(&foreign), Care::NotOurs);
        let mut done = volume("Delete", "Released", true);
        done.metadata.finalizers = None;
        assert_eq!(care(&done), Care::NotOurs);
    }

    #[test]
    fn the_volume_is_bound_to_its_claim_and_its_node() {
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": {"name": "data", "namespace": "ns", "uid": "u1"}, "spec": {"accessModes": ["ReadWriteOnce"]},
        }))
        .unwrap();
        let class: StorageClass = serde_json::from_value(json!({
            "metadata": {"name": "kept"}, "provisioner": PROVISIONER, "reclaimPolicy": "Retain",
        }))
        .unwrap();
        let order = Order { volume: "pvc-u1".into(), node: "node-2".into(), bytes: 300 << 20 };
        let built = build(&order, "/v/pvc-u1", &claim, &class).unwrap();
        assert!(belongs_to(&built, &claim));
        let value: Value = serde_json::to_value(&built).unwrap();
        let spec = &value["spec"];
        assert_eq!(spec["capacity"]["storage"], "300Mi");
        assert_eq!(spec["persistentVolumeReclaimPolicy"], "Retain");
        assert_eq!(spec["storageClassName"], "kept");
        assert_eq!(spec["local"]["path"], "/v/pvc-u1");
        let terms = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"];
        assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["node-2"]));
    }

    #[test]
    fn a_volume_of_another_claim_is_not_taken_over() {
        let other: PersistentVolumeClaim = serde_json::from_value(json!({"metadata": {"uid": "u2"}})).unwrap();
        assert!(!belongs_to(&volume("Delete", "Available", false), &other));
    }
}
