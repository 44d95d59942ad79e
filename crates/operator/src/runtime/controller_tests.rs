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
