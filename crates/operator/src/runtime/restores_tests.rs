use super::*;
use crate::client::{Deadlines, clients_of};
use crate::fake_api::FakeApi;
use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use std::sync::Arc;
use tokio::time::timeout;

const MAPS: &str = "/api/v1/namespaces/test/configmaps";
/// Many periods.
const A_WHILE: Duration = Duration::from_secs(5);

fn put(api: &FakeApi, name: &str) {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "test" } });
    api.put(&format!("{MAPS}/{name}"), object);
}

fn watched(api: &Arc<FakeApi>) -> BoxStream<'static, watcher::Result<Event<ConfigMap>>> {
    let maps = Api::namespaced(clients_of(api.config.clone(), Deadlines::default()).unwrap().watches, "test");
    asking_every(Duration::from_millis(20), maps, Config::default()).boxed()
}

/// The names that come until this one does, `|` before each list.
async fn until(last: &str, events: &mut BoxStream<'static, watcher::Result<Event<ConfigMap>>>) -> String {
    let mut told = Vec::new();
    while told.last().is_none_or(|name| name != last) {
        match timeout(A_WHILE, events.next()).await.expect("nothing is told").unwrap().unwrap() {
            Event::Apply(object) | Event::InitApply(object) => told.push(object.name_any()),
            Event::Init => told.push("|".to_owned()),
            Event::Delete(_) | Event::InitDone => {}
        }
    }
    told.join(" ")
}

#[tokio::test]
async fn after_a_restore_everything_is_listed_anew_and_the_watch_goes_on_from_there() {
    let api = FakeApi::start().await;
    put(&api, "a");
    let backup = api.state();
    (0..9).for_each(|_| put(&api, "lost"));
    let mut events = watched(&api);
    assert_eq!(until("lost", &mut events).await, "| a lost");
    put(&api, "b");
    assert_eq!(until("b", &mut events).await, "b");
    api.put_back(backup);
    put(&api, "c");
    assert_eq!(until("c", &mut events).await, "| a c");
    put(&api, "d");
    assert_eq!(until("d", &mut events).await, "d", "its version is below what was seen before the restore");
}

#[tokio::test]
async fn a_server_that_only_goes_on_is_listed_once() {
    let api = FakeApi::start().await;
    let mut events = watched(&api);
    for name in ["a", "b", "c", "d", "e"] {
        put(&api, name);
        until(name, &mut events).await;
        let more = async { while events.next().await.is_some() {} };
        assert!(timeout(Duration::from_millis(60), more).await.is_err(), "it is asked several times meanwhile");
    }
    assert_eq!(api.lists(), 1);
}

#[tokio::test]
async fn what_came_while_the_server_answered_does_not_make_its_answer_old() {
    let api = FakeApi::start().await;
    let maps: Api<ConfigMap> =
        Api::namespaced(clients_of(api.config.clone(), Deadlines::default()).unwrap().watches, "test");
    let (events, inquiries) = (stream::pending().boxed(), stream::pending().boxed());
    let mut following = Following { api: maps, config: Config::default(), events, inquiries, seen: 7, seen_before: 0 };
    following.learn(Inquiry::Begins);
    following
        .note(&Ok(Event::Apply(serde_json::from_value(json!({ "metadata": { "resourceVersion": "9" } })).unwrap())));
    following.learn(Inquiry::Answered(8));
    assert!(following.events.next().now_or_never().is_none(), "it is not begun anew");
    following.learn(Inquiry::Begins);
    following.learn(Inquiry::Answered(8));
    assert!(matches!(following.events.next().now_or_never(), Some(Some(Ok(Event::Init)))));
}

#[test]
fn a_version_that_the_server_has_not_or_not_yet_is_not_asked_for_again() {
    let status = |code, reason: &str| {
        let details = serde_json::from_value(json!({ "causes": [{ "reason": reason }] })).unwrap();
        Box::new(Status { code, details: Some(details), ..Status::default() })
    };
    let refused = |code, reason| watcher::Error::WatchStartFailed(kube::Error::Api(status(code, reason)));
    assert!(cannot_go_on(&refused(410, "")));
    assert!(cannot_go_on(&refused(504, TOO_LARGE)));
    assert!(cannot_go_on(&watcher::Error::WatchError(status(504, TOO_LARGE))));
    assert!(!cannot_go_on(&refused(504, "")), "a server that is slow is asked again");
}
