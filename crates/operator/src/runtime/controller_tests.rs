use super::*;
use crate::client::{Deadlines, clients_of};
use crate::fake_api::{FakeApi, Silence};
use crate::health::Health;
use crate::metrics::Metrics;
use crate::runtime::{Intent, ScopeSettings, Unreadable};
use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use planner::{Apply, ChildKey, ChildKind, Step, Why, WriteOutcome};
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::timeout;

/// Plans a write and a command for everything, and notes which commands went out.
#[derive(Default)]
struct Eager {
    sent: Mutex<Vec<String>>,
}

impl Kind for Eager {
    type Object = ValkeyCluster;
    type Observation = ();
    type Details = ();
    type Status = ValkeyClusterStatus;
    const KIND: &'static str = "Eager";
    const STATUS: &'static str = "Eager/status";

    fn conditions(status: &ValkeyClusterStatus) -> &[Condition] {
        &status.conditions
    }

    fn observed_generation(status: &ValkeyClusterStatus) -> Option<i64> {
        status.observed_generation
    }

    async fn observe(&self, _: &ValkeyCluster, _: &Known<'_, ValkeyClusterStatus>) {}

    fn plan(
        &self,
        object: &ValkeyCluster,
        (): &(),
        _: Option<&ValkeyClusterStatus>,
        _: Timestamp,
    ) -> Intent<ValkeyClusterStatus> {
        let key = ChildKey::new(ChildKind::ConfigMap, object.name_any());
        let manifest = json!({ "metadata": { "name": object.name_any(), "namespace": "test" } });
        Intent {
            steps: vec![Step::Apply(Apply { key, manifest, why: Why::Missing, uid: None, evict: Vec::new() })],
            status: ValkeyClusterStatus::default(),
            other_statuses: Vec::new(),
            events: Vec::new(),
            silent: false,
            requeue_after: Duration::from_secs(60),
            details: (),
        }
    }

    fn wrote(&self, (): &mut (), _: WriteOutcome) {}

    fn unreadable(&self, _: &Unreadable<'_>, _: Option<&ValkeyClusterStatus>, _: Timestamp) -> ValkeyClusterStatus {
        ValkeyClusterStatus::default()
    }

    fn send(&self, id: &ObjectId, (): &(), _: &Intent<ValkeyClusterStatus>) {
        self.sent.lock().unwrap().push(id.key.name.clone());
    }
}

fn object(name: &str) -> ValkeyCluster {
    let metadata = json!({ "name": name, "namespace": "test", "uid": name, "resourceVersion": "1" });
    serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap()
}

fn controller(api: &FakeApi) -> Arc<Controller<Eager>> {
    let settings = ScopeSettings {
        clients: clients_of(api.config.clone(), Deadlines::default()).unwrap(),
        namespace: None,
        metrics: Arc::new(Metrics::new()),
        health: Arc::new(Health::default()),
        resync: Duration::from_secs(60),
        kinds: Vec::new(),
    };
    let (scope, _) = Scope::new(settings);
    let (kind, scope) = (Arc::default(), Arc::new(scope));
    Arc::new(Controller { kind, scope, states: Memories::default(), api_work: Running::default() })
}

/// A request gets no answer for seconds; a failover cannot wait for that, and other clusters neither.
#[tokio::test]
async fn commands_go_out_while_the_api_server_is_silent() {
    let api = FakeApi::start().await;
    api.silence(Silence::All);
    let controller = controller(&api);
    let (one, other) = (object("one"), object("other"));
    let passes = async {
        for object in [&one, &one, &other, &one] {
            controller.pass(object).await;
        }
    };
    // Far less than the first write takes to be given up.
    timeout(Duration::from_secs(5), passes).await.expect("a pass waits for the API server");
    assert_eq!(*controller.kind.sent.lock().unwrap(), ["one", "one", "other", "one"]);
}

const CLUSTER: &str = "/apis/valkey.io/v1alpha1/namespaces/test/valkeyclusters/one";
const CONFIG_MAP: &str = "/api/v1/namespaces/test/configmaps/one";

/// A pass over the object as it is stored now; gives its status once it is such.
async fn pass_until(
    api: &FakeApi,
    controller: &Arc<Controller<Eager>>,
    is_such: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    let mut changes = api.changes();
    let object = serde_json::from_value(api.object(CLUSTER).unwrap()).unwrap();
    controller.pass(&object).await;
    let status = || api.object(CLUSTER).unwrap()["status"].clone();
    let reached = async {
        while !is_such(&status()) {
            changes.changed().await.unwrap();
        }
    };
    timeout(Duration::from_secs(5), reached).await.unwrap_or_else(|_| panic!("it stays {}", status()));
    controller.api_work.finish().await;
    status()
}

fn put_with(api: &FakeApi, status: serde_json::Value) {
    let metadata = json!({ "name": "one", "namespace": "test", "generation": 1 });
    let kind = "ValkeyCluster";
    let object =
        json!({ "apiVersion": "valkey.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": {}, "status": status });
    api.put(CLUSTER, object);
}

/// The fake API server keeps all that an apply does not name, as a real one does with what others wrote.
#[tokio::test]
async fn what_others_write_into_a_status_goes() {
    let api = FakeApi::start().await;
    let controller = controller(&api);
    let forged = json!({ "plan": "all is well", "queue": [{ "kind": "Heal", "why": "w", "since": "2026-01-01T00:00:00Z" }],
        "sidecarUpdate": "x", "masterCount": 9 });
    put_with(&api, json!({}));
    for _ in 0..2 {
        api.edit(CLUSTER, &json!({ "status": forged }));
        let status = pass_until(&api, &controller, |status| status.get("plan").is_none()).await;
        assert_eq!(status, json!(ValkeyClusterStatus::default()));
    }
}

/// What is left of somebody's orchestration when ours ends has not the fields that one needs.
#[tokio::test]
async fn a_remnant_that_is_invalid_without_what_was_ours_goes_too() {
    let api = FakeApi::start().await;
    api.rule(|object| {
        let running = object.pointer("/status/orchestration")?;
        running.get("id").is_none().then_some("status.orchestration.id: Required value")
    });
    let controller = controller(&api);
    put_with(&api, json!({ "orchestration": { "kind": "Heal" }, "plan": "x" }));
    let status = pass_until(&api, &controller, |status| status.get("plan").is_none()).await;
    assert_eq!(status.get("orchestration"), None);
}

#[tokio::test]
async fn a_status_that_is_refused_is_told_in_the_servers_words_and_holds_no_write_up() {
    let api = FakeApi::start().await;
    api.rule(|object| object.get("spec").map(|_| "status.phase: Unsupported value"));
    let controller = controller(&api);
    put_with(&api, json!({ "phase": "Odd" }));
    for _ in 0..2 {
        let written = async {
            let mut changes = api.changes();
            pass_until(&api, &controller, |_| true).await;
            while api.object(CONFIG_MAP).is_none() {
                changes.changed().await.unwrap();
            }
        };
        timeout(Duration::from_secs(5), written).await.expect("the write waits behind the status");
        controller.api_work.finish().await;
        api.remove(CONFIG_MAP);
    }
    let stored: ValkeyCluster = serde_json::from_value(api.object(CLUSTER).unwrap()).unwrap();
    let (id, next) = (ObjectId::of(&stored), ValkeyClusterStatus::default());
    let before = crate::runtime::publish::Before { previous: None, stored: None };
    let error = crate::runtime::publish::publish(&id, next, before, &controller).await.unwrap_err();
    assert!(error.to_string().ends_with("status.phase: Unsupported value"), "{error}");
}
