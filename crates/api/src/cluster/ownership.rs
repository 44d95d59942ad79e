//! Whether somebody set `spec.masterCount`, or only the schema's default stands there. Pure; reads what the API server keeps in
//! `metadata.managedFields`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use serde_json::{Value, json};

const FIELD: &str = "/f:spec/f:masterCount";
/// What `kubectl apply` on the client's side keeps of what somebody wrote.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Who applies like that. A default that comes in with its write counts as its own, though nobody wrote it.
const CLIENT_SIDE: [&str; 2] = ["kubectl-client-side-apply", "argocd-controller"];

/// Without any entry nobody is known to have set it.
pub fn sets_master_count(metadata: &ObjectMeta) -> bool {
    let written = was_written(metadata);
    let counts = |entry: &&ManagedFieldsEntry| written || !entry.manager.as_deref().is_some_and(is_client_side);
    metadata.managed_fields.iter().flatten().filter(counts).any(owns)
}

/// The entries shortened to the one thing that is asked of them.
pub fn kept(metadata: &ObjectMeta) -> Vec<ManagedFieldsEntry> {
    let fields = || FieldsV1(json!({ "f:spec": { "f:masterCount": {} } }));
    let entry = || ManagedFieldsEntry { fields_v1: Some(fields()), ..ManagedFieldsEntry::default() };
    sets_master_count(metadata).then(entry).into_iter().collect()
}

fn owns(entry: &ManagedFieldsEntry) -> bool {
    entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(FIELD).is_some())
}

fn is_client_side(manager: &str) -> bool {
    CLIENT_SIDE.contains(&manager)
}

/// Whether what was last applied on the client's side has the field. If nothing was, it is as if it had.
fn was_written(metadata: &ObjectMeta) -> bool {
    let applied = metadata.annotations.as_ref().and_then(|annotations| annotations.get(LAST_APPLIED));
    let applied = applied.and_then(|text| serde_json::from_str::<Value>(text).ok());
    applied.is_none_or(|applied| applied.pointer("/spec/masterCount").is_some_and(|value| !value.is_null()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HAS_IT: &str = r#"{"spec":{"masterCount":6}}"#;
    const LEFT_OUT: &str = r#"{"spec":{"replicasPerMaster":1}}"#;

    fn metadata(managers: &[(&str, &str)], last_applied: Option<&str>) -> ObjectMeta {
        let entry = |(manager, field): &(&str, &str)| json!({ "manager": manager, "operation": "Update", "fieldsV1": { "f:spec": { *field: {} } } });
        let annotations = last_applied.map(|text| json!({ LAST_APPLIED: text }));
        let managed: Vec<Value> = managers.iter().map(entry).collect();
        serde_json::from_value(json!({ "managedFields": managed, "annotations": annotations })).unwrap()
    }

    #[test]
    fn a_count_is_set_when_somebody_owns_it() {
        let count = "f:masterCount";
        let cases = [
            (metadata(&[], None), false),
            (metadata(&[("flux", "f:paused")], None), false),
            (metadata(&[("flux", count)], None), true),
            (metadata(&[("flux", "f:paused"), ("kube-controller-manager", count)], None), true),
            (metadata(&[("kubectl-client-side-apply", count)], Some(HAS_IT)), true),
            (metadata(&[("kubectl-client-side-apply", count)], Some(LEFT_OUT)), false),
            (metadata(&[("argocd-controller", count)], Some(LEFT_OUT)), false),
            (metadata(&[("kubectl-client-side-apply", count), ("kubectl", count)], Some(LEFT_OUT)), true),
            (metadata(&[("kubectl-create", count)], None), true),
        ];
        for (metadata, expected) in cases {
            assert_eq!(sets_master_count(&metadata), expected, "{:?}", metadata.managed_fields);
        }
    }

    #[test]
    fn what_is_kept_says_the_same() {
        for last_applied in [None, Some(HAS_IT), Some(LEFT_OUT)] {
            let mut whole =
                metadata(&[("kubectl-client-side-apply", "f:masterCount"), ("flux", "f:paused")], last_applied);
            let before = sets_master_count(&whole);
            whole.managed_fields = Some(kept(&whole));
            assert_eq!((sets_master_count(&whole), kept(&whole).len()), (before, usize::from(before)));
        }
    }
}
