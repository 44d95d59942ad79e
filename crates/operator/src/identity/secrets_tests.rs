use super::*;
use crate::fake_api::FakeApi;
use serde_json::json;

const PATH: &str = "/api/v1/namespaces/team-a/secrets/orders-mtls";

fn wanted() -> SecretWanted {
    let contents = Contents::default().with("tls.key", "ours");
    let (labels, annotations) = (BTreeMap::new(), BTreeMap::new());
    SecretWanted { name: "orders-mtls".into(), kind: OPAQUE, contents, labels, annotations, owner: None }
}

fn somebodys() -> serde_json::Value {
    json!({ "metadata": { "name": "orders-mtls" }, "data": { "password": "dGhlaXJz" } })
}

#[tokio::test]
async fn a_secret_that_came_since_it_was_looked_at_is_not_written_over() {
    let api = FakeApi::start().await;
    let secrets = Secrets::new(Client::try_from(api.config.clone()).unwrap(), Arc::new(Metrics::new()));
    api.put(PATH, somebodys());
    let before = api.object(PATH);
    assert!(secrets.write("team-a", &wanted(), None).await.is_err(), "none was there a moment ago");
    assert!(secrets.write("team-a", &wanted(), Some("another one")).await.is_err(), "it took another's place");
    assert_eq!(api.object(PATH), before);
    api.remove(PATH);
    assert!(secrets.write("team-a", &wanted(), Some("another one")).await.is_err(), "it went");
    secrets.write("team-a", &wanted(), None).await.unwrap();
    let uid = secrets.read("team-a", "orders-mtls").await.unwrap().unwrap().uid;
    secrets.write("team-a", &wanted(), Some(&uid)).await.unwrap();
}

#[test]
fn what_the_operator_made_for_itself_is_told_from_what_it_made_for_a_cluster() {
    let seen = |key: &str| SecretSeen {
        annotations: BTreeMap::from([(key.to_owned(), "orders".to_owned())]),
        ours: true,
        ..SecretSeen::default()
    };
    assert!(seen(names::ISSUED_AT).is_operators());
    assert!(!seen(annotation::CR).is_operators() && !seen(names::KEY_OF).is_operators());
    assert!(!SecretSeen { ours: false, ..seen(names::ISSUED_AT) }.is_operators());
}
