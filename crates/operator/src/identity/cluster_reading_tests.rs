use super::*;
use crate::identity::cluster_writing::owner;
use serde_json::json;

fn secret(ours: bool, controller: Option<(&str, &str)>, annotations: &[(&str, &str)]) -> SecretSeen {
    let controller = controller.map(|(name, uid)| owner(KIND, name, uid));
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    SecretSeen { uid: "secret".into(), ours, controller, annotations, ..SecretSeen::default() }
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
        foreign: None,
        immutable: None,
    }
}

#[test]
fn a_secret_of_an_earlier_cluster_of_this_name_counts_as_absent_and_may_be_written_over() {
    let mark = [(annotation::CR, "orders")];
    let whose = |controller| whose(&secret(true, controller, &mark), "orders", "second");
    assert_eq!(whose(Some(("orders", "second"))), Whose::Its);
    assert_eq!(whose(Some(("orders", "first"))), Whose::Namesakes);
    assert_eq!(whose(None), Whose::Namesakes, "orphaned");
    let claim = Claim::to(Ok(Some(secret(true, None, &mark))), "orders-mtls", |_| Whose::Namesakes);
    assert!(matches!(claim.found, Found::Absent) && claim.over.as_deref() == Some("secret") && claim.foreign.is_none());
}

#[test]
fn a_secret_of_the_operators_own_or_of_another_cluster_is_never_taken_for_the_clusters() {
    let other = [(annotation::CR, "invoices")];
    let of_operator = secret(true, None, &[(names::ISSUED_AT, "2026-01-01T00:00:00Z")]);
    let of_other = secret(true, Some(("invoices", "other")), &other);
    let orphan_of_other = secret(true, None, &other);
    let of_user = secret(false, None, &[(annotation::CR, "orders")]);
    let key = secret(true, None, &[(names::KEY_OF, "team-a/orders"), (names::KEY_OF_UID, "second")]);
    for seen in [of_operator, of_other, orphan_of_other, of_user, key] {
        assert_eq!(whose(&seen, "orders", "second"), Whose::Others, "{:?}", seen.annotations);
        let claim = Claim::to(Ok(Some(seen)), "orders-mtls", |seen| whose(seen, "orders", "second"));
        assert!(matches!(claim.found, Found::Unreadable(_)) && claim.over.is_none());
        assert_eq!(claim.foreign.as_deref(), Some("orders-mtls"));
    }
}

#[test]
fn the_key_of_an_intermediate_is_known_by_namespace_name_and_uid_of_its_cluster() {
    let cluster = ObjectKey::cluster("team-a", "orders");
    let whose = |of: &str, uid: &str| {
        whose_key(&secret(true, None, &[(names::KEY_OF, of), (names::KEY_OF_UID, uid)]), &cluster, "second")
    };
    assert_eq!(whose("team-a/orders", "second"), Whose::Its);
    assert_eq!(whose("team-a/orders", "first"), Whose::Namesakes);
    assert_eq!(whose("team-b/orders", "second"), Whose::Others);
    assert_eq!(whose_key(&secret(true, None, &[]), &cluster, "second"), Whose::Others, "the operator's own");
}

#[test]
fn a_cluster_had_a_leaf_only_if_bundle_and_binding_are_its_own() {
    assert!(reading("second", "bundle").had_a_leaf());
    assert!(!reading("first", "bundle").had_a_leaf(), "an earlier cluster of the same name had one");
    assert!(!reading("second", "earlier bundle").had_a_leaf());
    assert!(!Reading { binding: None, ..reading("second", "bundle") }.had_a_leaf());
}
