use super::*;
use crate::identity::nowhere::identities;

fn cluster(metadata: Value) -> ValkeyCluster {
    serde_json::from_value(
        json!({ "apiVersion": API_VERSION, "kind": "ValkeyCluster", "spec": {}, "metadata": metadata }),
    )
    .unwrap()
}

#[tokio::test]
async fn no_sidecar_of_a_cluster_that_is_being_deleted_is_waited_for() {
    let identities = identities();
    let name = ObjectKey::cluster("team-a", "orders");
    let party = Party { name: "team-a/orders-0".into(), trusts: None, presents: None };
    identities.memories.set_parties(&name, "uid", vec![party]);
    let deleted = json!({ "name": "orders", "namespace": "team-a", "uid": "uid",
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.org/stuck"] });
    let facts = identities.ensure(&cluster(deleted), &[]).await;
    assert_eq!(facts.ready, Ok(()));
    assert_eq!(identities.memories.parties(&name, "uid"), Some(Vec::new()));
}
