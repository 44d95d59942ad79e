use super::*;
use crate::runtime::{Cache, Queues};
use crate::runtime::{Entry, ObjectKey, ObjectName, Payload, Source};
use api::cluster::ValkeyCluster;
use api::stored::Stored;
use kube::runtime::reflector::store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use planner::{ChildKind, PodFacts};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tokens are JWTs without a signature, whose subject is `namespace/account/pod/uid`.
#[derive(Clone, Default)]
struct Fake {
    asked: Arc<AtomicUsize>,
    down: bool,
}

impl Reviewer for Fake {
    fn review<'a>(&'a self, token: &'a str) -> BoxFuture<'a, kube::Result<TokenReviewStatus>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = if self.down {
            Err(kube::Error::Api(Status::failure("it is too busy", "ServiceUnavailable").with_code(503).boxed()))
        } else {
            Ok(status(token))
        };
        Box::pin(async move { answer })
    }
}

fn status(token: &str) -> TokenReviewStatus {
    let words: Vec<&str> = token.split('.').next().unwrap().split('/').collect();
    let [namespace, account, pod, uid] = words.as_slice() else { return TokenReviewStatus::default() };
    serde_json::from_value(json!({ "authenticated": true, "audiences": [LINE_AUDIENCE], "user": {
        "username": format!("system:serviceaccount:{namespace}:{account}"),
        "extra": { "authentication.kubernetes.io/pod-name": [pod], "authentication.kubernetes.io/pod-uid": [uid] } } }))
    .unwrap()
}

fn token(words: &str, ends: i64) -> String {
    of_claims(words, &json!({ "exp": ends }))
}

fn of_claims(words: &str, claims: &serde_json::Value) -> String {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    format!("{words}.{}.", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn in_an_hour() -> i64 {
    Timestamp::now().as_second() + 3600
}

fn entry(source: Source, name: &str, uid: &str, payload: Payload) -> Entry {
    let owner = ObjectKey::cluster("team-a", "orders");
    let object = ObjectName { source, namespace: "team-a".into(), name: name.into() };
    Entry { object, owner, uid: uid.into(), resource_version: "1".into(), payload }
}

fn orders() -> Stored<ValkeyCluster> {
    let cluster = json!({ "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "spec": {},
        "metadata": { "name": "orders", "namespace": "team-a", "uid": "cluster" } });
    serde_json::from_value(cluster).unwrap()
}

fn scopes() -> Arc<Scopes> {
    land().0
}

/// A scopes with the cluster orders, its StatefulSet, its pod orders-0, a stranger that carries our labels, and pods of other
/// names that claim to be the StatefulSet's; with what the watches write to.
fn land() -> (Arc<Scopes>, Arc<Cache>, Writer<Stored<ValkeyCluster>>) {
    let scopes = Scopes::default();
    let cache = Arc::new(Cache::default());
    Source::all().into_iter().for_each(|source| drop(cache.listed(source, &Default::default())));
    let set = Source::Child(ChildKind::StatefulSet);
    cache.insert(entry(set, "orders", "set", Payload::Child(Arc::default())));
    for (name, controller) in [
        ("orders-0", "set"),
        ("stranger", "other"),
        ("spy", "set"),
        ("orders-00", "set"),
        ("orders-1000", "set"),
        ("other-0", "set"),
    ] {
        let facts = PodFacts { uid: name.into(), controller: Some(controller.into()), ..PodFacts::default() };
        cache.insert(entry(Source::Pods, name, name, Payload::Pod(Arc::new(facts))));
    }
    let (clusters, mut writer) = store();
    writer.apply_watcher_event(&Event::Apply(orders()));
    scopes.add(WatchedScope {
        namespace: Some("team-a".into()),
        cache: cache.clone(),
        clusters,
        queues: Queues::default(),
    });
    (Arc::new(scopes), cache, writer)
}

fn proof(reviewer: &Fake) -> TokenProof {
    TokenProof::new(reviewer.clone(), scopes(), Arc::new(Metrics::new()))
}

#[tokio::test]
async fn a_pods_token_proves_its_cluster_and_is_reviewed_once() {
    let reviewer = Fake::default();
    let proof = proof(&reviewer);
    let token = token("team-a/orders-valkey/orders-0/orders-0", in_an_hour());
    for _ in 0..3 {
        let pod = proof.prove(&token).await.unwrap();
        assert_eq!(
            (pod.cluster.as_str(), pod.cluster_uid.as_str(), pod.pod.as_str()),
            ("orders", "cluster", "orders-0")
        );
    }
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_token_is_remembered_no_longer_than_it_lasts() {
    let reviewer = Fake::default();
    let proof = proof(&reviewer);
    let token = token("team-a/orders-valkey/orders-0/orders-0", Timestamp::now().as_second() - 1);
    for _ in 0..2 {
        proof.prove(&token).await.unwrap();
    }
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn who_is_not_a_pod_of_a_cluster_is_refused() {
    let proof = proof(&Fake::default());
    let cases = [
        ("team-a/orders-valkey/orders-7/orders-7", "none of this operator's"),
        ("team-a/orders-valkey/orders-0/earlier", "replaced by another"),
        ("team-a/orders-valkey/stranger/stranger", "not made by the StatefulSet"),
        ("team-a/orders-valkey/spy/spy", "its name"),
        ("team-a/orders-valkey/orders-00/orders-00", "its name"),
        ("team-a/orders-valkey/orders-1000/orders-1000", "its name"),
        ("team-a/orders-valkey/other-0/other-0", "its name"),
        ("team-a/default/orders-0/orders-0", "service account"),
        ("nonsense", "does not know it"),
    ];
    // Together, because each is waited for a while in case the watches are behind.
    let tokens = cases.map(|(words, _)| token(words, in_an_hour()));
    let answers = futures::future::join_all(tokens.iter().map(|token| proof.prove(token))).await;
    for ((words, why), answer) in cases.into_iter().zip(answers) {
        let refused = answer.unwrap_err();
        assert!(matches!(&refused, ProofError::Refused(text) if text.contains(why)), "{words}: {refused:?}");
    }
}

#[tokio::test]
async fn an_api_server_that_cannot_say_refuses_nobody() {
    let reviewer = Fake { down: true, ..Fake::default() };
    let unavailable = proof(&reviewer).prove(&token("team-a/orders-valkey/orders-0/orders-0", in_an_hour())).await;
    assert!(matches!(&unavailable, Err(ProofError::Unavailable(why)) if why.contains("too busy")), "{unavailable:?}");
    let elsewhere = proof(&Fake::default()).prove(&token("team-b/orders-valkey/orders-0/orders-0", in_an_hour())).await;
    assert!(matches!(elsewhere, Err(ProofError::Unavailable(_))), "{elsewhere:?}");
}

#[tokio::test]
async fn a_proof_holds_until_the_pod_or_its_cluster_is_gone() {
    let (scopes, cache, mut writer) = land();
    let proof = TokenProof::new(Fake::default(), scopes, Arc::new(Metrics::new()));
    let pod = proof.prove(&token("team-a/orders-valkey/orders-0/orders-0", in_an_hour())).await.unwrap();
    assert!(proof.holds(&pod).is_ok());
    let refused = |why: &str| matches!(proof.holds(&pod), Err(ProofError::Refused(text)) if text.contains(why));
    let name = |source, name: &str| ObjectName { source, namespace: "team-a".into(), name: name.into() };
    cache.remove(&name(Source::Child(ChildKind::StatefulSet), "orders"), "set");
    writer.apply_watcher_event(&Event::Init);
    assert!(proof.holds(&pod).is_ok(), "its StatefulSet is made anew, and its cluster listed anew");
    writer.apply_watcher_event(&Event::InitDone);
    assert!(refused("ValkeyCluster is gone"));
    writer.apply_watcher_event(&Event::Apply(orders()));
    assert!(proof.holds(&pod).is_ok());
    cache.remove(&name(Source::Pods, "orders-0"), "orders-0");
    assert!(refused("pod is gone"));
}

#[test]
fn a_refused_token_is_that_of_the_pod_it_names_if_there_is_one_of_that_uid() {
    let proof = proof(&Fake::default());
    let claimed = |pod: &str, uid: &str| {
        let claims = json!({ "kubernetes.io": { "namespace": "team-a", "pod": { "name": pod, "uid": uid } } });
        proof.claims(&of_claims("head", &claims)).map(|pod| (pod.cluster, pod.cluster_uid, pod.pod_uid))
    };
    assert_eq!(claimed("orders-0", "orders-0"), Some(("orders".into(), "cluster".into(), "orders-0".into())));
    assert_eq!(claimed("orders-0", "earlier"), None);
    assert_eq!(claimed("orders-7", "orders-7"), None);
    assert_eq!(proof.claims("nonsense"), None);
}
