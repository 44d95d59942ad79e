//! What a PersistentVolumeClaim asks of us, and whether it can be had. Pure; called by `provision` and `growth`.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use thiserror::Error;

use super::{PROVISIONER, size};
use crate::config::Node;

/// Set by kube-controller-manager once the claim is ours to serve.
const PROVISIONER_ANNOTATION: &str = "volume.kubernetes.io/storage-provisioner";
/// Set by the scheduler for classes that wait for the first consumer.
const NODE_ANNOTATION: &str = "volume.kubernetes.io/selected-node";

#[derive(Debug, Eq, PartialEq)]
pub enum Need {
    Nothing,
    Volume,
    /// The bound volume of that name must get at least so many bytes.
    Growth {
        volume: String,
        bytes: u64,
    },
}

/// Everything that is needed to make the volume.
#[derive(Debug, Eq, PartialEq)]
pub struct Order {
    pub volume: String,
    pub node: String,
    pub bytes: u64,
}

/// Why a claim cannot be served, and what to do about it. Shown as an Event.
#[derive(Debug, Eq, Error, PartialEq)]
pub enum Refusal {
    #[error("spec.volumeMode is Block, but this class makes file systems only; set volumeMode to Filesystem")]
    RawBlock,
    #[error("spec.accessModes has {0}, but a local disk belongs to one node; use ReadWriteOnce or ReadWriteOncePod")]
    SharedAccess(String),
    #[error("spec.dataSource is set, but volumes of this class always start empty; remove it")]
    DataSource,
    #[error("spec.selector is set, but a new volume has no labels to select; remove it")]
    Selector,
    #[error("spec.resources.requests.storage {0:?} is no usable size; give one such as 1Gi")]
    Size(String),
    #[error(
        "the scheduler chose node {chosen}, which has no disks here (only {known} have); keep the pod off it with nodeSelector or affinity"
    )]
    UnknownNode { chosen: String, known: String },
    #[error(
        "{wanted} are needed, but the host's disk has only {free} free; request less, or free some space on the host"
    )]
    NoSpace { wanted: String, free: String },
}

impl Refusal {
    /// Space may come back without a change of the claim; everything else needs one.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }
}

pub fn need(claim: &PersistentVolumeClaim) -> Need {
    let Some(spec) = claim.spec.as_ref().filter(|_| is_ours(claim)) else {
        return Need::Nothing;
    };
    match (&spec.volume_name, is_bound(claim)) {
        (Some(volume), true) => growth(claim, spec, volume),
        (None, false) => Need::Volume,
        _ => Need::Nothing,
    }
}

fn is_ours(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_none() && annotation(claim, PROVISIONER_ANNOTATION) == Some(PROVISIONER)
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

fn annotation<'a>(claim: &'a PersistentVolumeClaim, name: &str) -> Option<&'a str> {
    claim.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn growth(claim: &PersistentVolumeClaim, spec: &PersistentVolumeClaimSpec, volume: &str) -> Need {
    let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage"));
    let requested = requested(spec).and_then(size::bytes);
    match (requested, capacity.and_then(size::bytes)) {
        (Some(bytes), Some(capacity)) if bytes > capacity => Need::Growth { volume: volume.to_owned(), bytes },
        _ => Need::Nothing,
    }
}

fn requested(spec: &PersistentVolumeClaimSpec) -> Option<&Quantity> {
    spec.resources.as_ref()?.requests.as_ref()?.get("storage")
}

/// Nothing while the scheduler has not yet chosen a node.
pub fn order(claim: &PersistentVolumeClaim, class: &StorageClass, nodes: &[Node]) -> Result<Option<Order>, Refusal> {
    let Some(spec) = &claim.spec else { return Ok(None) };
    check(spec)?;
    let bytes = disk_bytes(spec)?;
    let Some(node) = choose_node(claim, class, nodes)? else { return Ok(None) };
    let volume = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    Ok(Some(Order { volume, node, bytes }))
}

fn check(spec: &PersistentVolumeClaimSpec) -> Result<(), Refusal> {
    if spec.volume_mode.as_deref() == Some("Block") {
        return Err(Refusal::RawBlock);
    }
    let shared = |mode: &&String| !matches!(mode.as_str(), "ReadWriteOnce" | "ReadWriteOncePod");
    if let Some(mode) = spec.access_modes.iter().flatten().find(shared) {
        return Err(Refusal::SharedAccess(mode.clone()));
    }
    if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        return Err(Refusal::DataSource);
    }
    if spec.selector.is_some() { Err(Refusal::Selector) } else { Ok(()) }
}

fn disk_bytes(spec: &PersistentVolumeClaimSpec) -> Result<u64, Refusal> {
    let text = requested(spec);
    let bytes = text.and_then(size::bytes).filter(|bytes| *bytes > 0).and_then(size::disk_size);
    bytes.ok_or_else(|| Refusal::Size(text.map(|quantity| quantity.0.clone()).unwrap_or_default()))
}

fn choose_node(claim: &PersistentVolumeClaim, class: &StorageClass, nodes: &[Node]) -> Result<Option<String>, Refusal> {
    let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
    match annotation(claim, NODE_ANNOTATION) {
        Some(chosen) if nodes.iter().any(|node| node.name == chosen) => Ok(Some(chosen.to_owned())),
        Some(chosen) => Err(unknown_node(chosen, nodes)),
        None if waits => Ok(None),
        None => Ok(nodes.first().map(|node| node.name.clone())),
    }
}

fn unknown_node(chosen: &str, nodes: &[Node]) -> Refusal {
    let known: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    Refusal::UnknownNode { chosen: chosen.to_owned(), known: known.join(", ") }
}

/// Files are sparse, so a host with that little space left would only fail later, in the middle of a write.
pub fn check_space(additional: u64, free: u64) -> Result<(), Refusal> {
    if additional <= free {
        return Ok(());
    }
    Err(Refusal::NoSpace { wanted: size::readable(additional), free: size::readable(free) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Change = fn(&mut Value);

    fn claim(change: impl FnOnce(&mut Value)) -> PersistentVolumeClaim {
        let mut claim = json!({
            "metadata": {"name": "data", "namespace": "ns", "uid": "u1", "annotations": {
                (PROVISIONER_ANNOTATION): PROVISIONER, (NODE_ANNOTATION): "node-2"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        });
        change(&mut claim);
        serde_json::from_value(claim).unwrap()
    }

    fn class(mode: &str) -> StorageClass {
        StorageClass { volume_binding_mode: Some(mode.into()), ..Default::default() }
    }

    fn nodes() -> Vec<Node> {
        let node =
            |name: &str| Node { name: name.into(), netns: "/n".into(), pod_cidr: "10.200.1.0/24".parse().unwrap() };
        vec![node("node-1"), node("node-2")]
    }

    fn ordered(change: impl FnOnce(&mut Value)) -> Result<Option<Order>, Refusal> {
        order(&claim(change), &class("WaitForFirstConsumer"), &nodes())
    }

    #[test]
    fn an_unbound_claim_of_ours_needs_a_volume() {
        assert_eq!(need(&claim(|_| {})), Need::Volume);
        assert_eq!(need(&claim(|claim| claim["metadata"]["annotations"] = json!({}))), Need::Nothing);
        assert_eq!(need(&claim(|claim| claim["spec"]["volumeName"] = json!("static"))), Need::Nothing);
        let deleted = claim(|claim| claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        assert_eq!(need(&deleted), Need::Nothing);
    }

    #[test]
    fn a_bound_claim_needs_growth_only_when_it_asks_for_more_than_it_has() {
        let bound = |capacity: &str| {
            claim(|claim| {
                claim["spec"]["volumeName"] = json!("pvc-u1");
                claim["status"] = json!({"phase": "Bound", "capacity": {"storage": capacity}});
            })
        };
        assert_eq!(need(&bound("1Gi")), Need::Nothing);
        assert_eq!(need(&bound("2Gi")), Need::Nothing);
        assert_eq!(need(&bound("500Mi")), Need::Growth { volume: "pvc-u1".into(), bytes: 1 << 30 });
    }

    #[test]
    fn the_order_names_volume_node_and_real_size() {
        let small = ordered(|claim| claim["spec"]["resources"]["requests"]["storage"] = json!("1Mi"));
        let expected = Order { volume: "pvc-u1".into(), node: "node-2".into(), bytes: 300 << 20 };
        assert_eq!(small, Ok(Some(expected)));
    }

    #[test]
    fn without_a_chosen_node_one_class_waits_and_the_other_takes_the_first() {
        let undecided = claim(|claim| claim["metadata"]["annotations"] = json!({}));
        assert_eq!(order(&undecided, &class("WaitForFirstConsumer"), &nodes()), Ok(None));
        assert_eq!(order(&undecided, &class("Immediate"), &nodes()).unwrap().unwrap().node, "node-1");
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_the_field_and_the_remedy() {
        let table: [(&str, Change); 7] = [
            ("set volumeMode to Filesystem", |claim| claim["spec"]["volumeMode"] = json!("Block")),
            ("ReadWriteMany, but a local disk", |claim| {
                claim["spec"]["accessModes"] = json!(["ReadWriteOnce", "ReadWriteMany"])
            }),
            ("spec.dataSource is set", |claim| {
                claim["spec"]["dataSource"] = json!({"kind": "VolumeSnapshot", "name": "s"})
            }),
            ("spec.selector is set", |claim| claim["spec"]["selector"] = json!({})),
            ("\"0\" is no usable size", |claim| claim["spec"]["resources"]["requests"]["storage"] = json!("0")),
            ("\"20Ei\" is no usable size", |claim| claim["spec"]["resources"]["requests"]["storage"] = json!("20Ei")),
            ("node-9, which has no disks here (only node-1, node-2 have)", |claim| {
                claim["metadata"]["annotations"][NODE_ANNOTATION] = json!("node-9");
            }),
        ];
        for (words, change) in table {
            let refusal = ordered(change).unwrap_err();
            assert!(refusal.to_string().contains(words), "{refusal}");
            assert!(!refusal.may_pass());
        }
    }

    #[test]
    fn a_request_beyond_the_hosts_disk_is_refused_until_there_is_space() {
        assert_eq!(check_space(10, 10), Ok(()));
        let refusal = check_space(10 << 40, 73 << 30).unwrap_err();
        assert!(refusal.may_pass() && refusal.to_string().starts_with("10 TiB are needed"), "{refusal}");
    }
}
