use super::*;
use crate::identity::contents::Contents;
use serde_json::json;
use std::collections::BTreeMap;

fn secret(controller: Option<&str>) -> Answer {
    let (contents, annotations) = (Contents::default(), BTreeMap::new());
    Ok(Some(SecretSeen { contents, annotations, ours: true, controller: controller.map(str::to_owned) }))
}

fn reading(bundle_of: &str, binding_of: &str) -> Reading {
    let owned = |by: &str| json!([{ "apiVersion": "v", "kind": "K", "name": "n", "uid": by, "controller": true }]);
    let moment = "2026-01-01T00:00:00Z";
    let bundle = json!({ "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCertificateBundle",
        "metadata": { "name": "a", "uid": "bundle", "ownerReferences": owned(bundle_of) },
        "spec": { "caRef": "a", "purpose": "mtls", "certSecretRef": "a", "keySecretRef": "a", "issuedAt": moment } });
    let binding = json!({ "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCertificateBinding",
        "metadata": { "name": "a", "ownerReferences": owned(binding_of) }, "spec": { "clusterRef": "orders", "active": [] } });
    Reading {
        cluster_uid: "second".into(),
        bundle: serde_json::from_value(bundle).unwrap(),
        binding: serde_json::from_value(binding).unwrap(),
        intermediate: Found::Absent,
        leaf: Found::Absent,
        written: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn a_secret_of_an_earlier_cluster_of_this_name_counts_as_absent() {
    assert!(matches!(ours(secret(Some("second")), "second"), Found::Whole(_)));
    assert!(matches!(ours(secret(Some("first")), "second"), Found::Absent));
    assert!(matches!(ours(secret(None), "second"), Found::Absent));
}

#[test]
fn a_cluster_had_a_leaf_only_if_bundle_and_binding_are_its_own() {
    assert!(reading("second", "bundle").had_a_leaf());
    assert!(!reading("first", "bundle").had_a_leaf(), "an earlier cluster of the same name had one");
    assert!(!reading("second", "earlier bundle").had_a_leaf());
    assert!(!Reading { binding: None, ..reading("second", "bundle") }.had_a_leaf());
}
