use super::*;
use crate::fake_api::FakeApi;
use crate::identity::in_force::Root;
use crate::identity::nowhere::{NAMESPACE, identities, identities_at};
use api::names::{self as common, API_VERSION, MANAGER, label};
use certificates::{Source, Why};
use pki::{Authority, SystemRandomness};
use serde_json::Value;

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
    assert_eq!(identities.observe(&cluster(deleted), &[]), Certificates::Elsewhere);
    assert_eq!(identities.memories.parties(&name, "uid"), Some(Vec::new()));
}

fn named(namespace: &str, name: &str) -> ValkeyCluster {
    cluster(json!({ "name": name, "namespace": namespace, "uid": "uid" }))
}

fn secret(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}

/// An operator with a root, and the API server it works at.
async fn with_root() -> (Arc<FakeApi>, Arc<Identities>) {
    let api = FakeApi::start().await;
    let identities = identities_at(api.config.clone());
    let domain = NAMESPACE.parse().unwrap();
    let authority =
        Authority::root(&domain, Duration::from_secs(3650 * DAY), Timestamp::now(), &SystemRandomness).unwrap();
    let trusted = authority.bundle().unwrap();
    let root = Root { authority, issued_at: Timestamp::now(), source: Source::Operator, came_from: "root".into() };
    identities.in_force.send_replace(Some(Arc::new(InForce { root, trusted })));
    (api, identities)
}

fn first_issue() -> Step {
    Step::IssueCertificate { why: Why::First, intermediate: Some(Why::First), replaces: None }
}

#[tokio::test]
async fn a_cluster_called_like_the_operator_leaves_the_operators_secrets_alone() {
    let (api, identities) = with_root().await;
    let operators = json!({ "metadata": { "labels": { label::MANAGED_BY: MANAGER },
        "annotations": { names::ISSUED_AT: "2026-01-01T00:00:00Z" } }, "data": { "tls.key": "a2V5" } });
    // Whatever it is called: one that meets a name which the cluster needs is nothing to mount or to write over.
    let path = secret(NAMESPACE, &common::mtls_secret(MANAGER));
    api.put(&path, operators);
    let before = api.object(&path);
    let cluster = named(NAMESPACE, MANAGER);
    identities.look_up(&cluster).await;
    let Certificates::Read(read) = identities.observe(&cluster, &[]) else { panic!("not read") };
    assert_eq!(read.foreign, Some(common::mtls_secret(MANAGER)));
    assert!(Certificates::Read(read).ready(false).is_err(), "pods would mount it");
    assert!(identities.carry_out(&cluster, &first_issue()).await.is_err());
    assert_eq!(api.object(&path), before);
}

#[tokio::test]
async fn the_key_of_an_intermediate_is_in_the_operators_namespace_and_goes_after_its_cluster() {
    let (api, identities) = with_root().await;
    let (cluster, key) = (named("team-a", "orders"), ObjectKey::cluster("team-a", "orders"));
    identities.carry_out(&cluster, &first_issue()).await.unwrap();
    let path = secret(NAMESPACE, &names::intermediate_key_secret("team-a", "orders"));
    assert!(api.object(&path).unwrap()["data"]["tls.key"].is_string());
    let elsewhere = secret("team-a", &names::intermediate_secret("orders"));
    assert!(api.object(&elsewhere).unwrap()["data"]["tls.key"].is_null());
    let (reading, _) = identities
        .read_cluster(&key, "uid", &identities.in_force.borrow().clone().unwrap(), Timestamp::now())
        .await
        .unwrap();
    assert!(reading.intermediate.whole().is_some() && reading.leaf.whole().is_some(), "{reading:?}");

    identities.forget(&key);
    identities.delete_keys_of_ended_clusters().await;
    assert_eq!(api.object(&path), None);
}

#[tokio::test]
async fn the_key_of_a_successor_of_the_same_name_stays() {
    let (api, identities) = with_root().await;
    let key = ObjectKey::cluster("team-a", "orders");
    identities.carry_out(&named("team-a", "orders"), &first_issue()).await.unwrap();
    identities.memories.has_ended(key, "an earlier one".into());
    identities.delete_keys_of_ended_clusters().await;
    assert!(api.object(&secret(NAMESPACE, &names::intermediate_key_secret("team-a", "orders"))).is_some());
}

#[tokio::test]
async fn a_secret_that_somebody_made_immutable_is_named() {
    let (api, identities) = with_root().await;
    let cluster = named("team-a", "orders");
    identities.carry_out(&cluster, &first_issue()).await.unwrap();
    let path = secret("team-a", &common::mtls_secret("orders"));
    let mut stored = api.object(&path).unwrap();
    stored["immutable"] = serde_json::json!(true);
    api.put(&path, stored);
    let in_force = identities.in_force.borrow().clone().unwrap();
    let key = ObjectKey::cluster("team-a", "orders");
    let (reading, _) = identities.read_cluster(&key, "uid", &in_force, Timestamp::now()).await.unwrap();
    assert_eq!((reading.immutable, reading.foreign), (Some(common::mtls_secret("orders")), None));
}
