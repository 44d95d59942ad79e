use super::*;
use crate::fake_api::{FakeApi, Silence};
use std::sync::Arc;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/system/leases/valkey-operator";
/// No test waits for as long as this.
const SECONDS: Duration = Duration::from_secs(3);

fn lease(metadata: Value) -> Lease {
    serde_json::from_value(json!({ "metadata": metadata, "spec": { "leaseTransitions": 4 } })).unwrap()
}

fn with(annotations: Value) -> Lease {
    lease(json!({ "annotations": annotations }))
}

fn election(api: &FakeApi, identity: &str) -> Election {
    let client = kube::Client::try_from(api.config.clone()).unwrap();
    let settings = Settings {
        name: "valkey-operator".into(),
        identity: identity.into(),
        duration: SECONDS,
        interval: Duration::from_millis(20),
        line_address: Some(format!("{identity}:8443")),
    };
    let leadership = watch::Sender::new(Leadership::Follower { leader: None });
    Election::new(Api::namespaced(client, "system"), settings, leadership)
}

impl Election {
    fn term(&self) -> Option<u64> {
        match *self.leadership.borrow() {
            Leadership::Leader { epoch } => Some(epoch),
            Leadership::Follower { .. } => None,
        }
    }
}

async fn won_by(api: &FakeApi, identity: &str) -> Election {
    let mut election = election(api, identity);
    election.win().await;
    election
}

#[test]
fn the_term_is_the_annotations_or_what_an_older_operator_left() {
    assert_eq!(epoch(&with(json!({ annotation::EPOCH: "9" }))), 9);
    assert_eq!(epoch(&with(json!({}))), 4);
    assert_eq!(epoch(&with(json!({ annotation::EPOCH: "nonsense" }))), 4);
    assert_eq!(epoch(&Lease::default()), 0);
}

#[test]
fn a_later_claim_has_a_higher_term_whatever_became_of_the_lease_and_of_the_versions() {
    let claimed = |at: &str, version: u64, before: Option<u64>| {
        let annotations = before.map(|epoch| json!({ annotation::EPOCH: epoch.to_string() }));
        term(&lease(json!({ "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": version.to_string(),
            "managedFields": [{ "manager": "valkey-operator", "time": at }], "annotations": annotations })))
    };
    let first = claimed("2026-01-01T00:00:00Z", 10, None);
    assert!(claimed("2026-01-01T00:00:00Z", 12, None) > first, "deleted and made again within a second");
    assert!(claimed("2026-01-01T00:00:01Z", 3, None) > first, "restored from an older state");
    assert!(claimed("2025-12-31T23:59:59Z", 12, Some(first)) > first, "another API server, whose clock is behind");
    assert!(
        claimed("2026-01-01T00:00:01Z", 12, Some(7)) > first_term_at(1_767_225_600),
        "after a time without an election"
    );
    assert!(claimed("2200-01-01T00:00:00Z", u64::MAX, None) < 1 << 53, "whoever reads it as a float reads it right");
}

#[tokio::test]
async fn deleting_the_lease_makes_no_two_leaders_share_a_term() {
    let api = FakeApi::start().await;
    let first = won_by(&api, "first").await;
    let mut terms = vec![first.term().unwrap()];
    for name in ["second", "third"] {
        // The one before has not noticed yet.
        api.remove(LEASE);
        terms.push(won_by(&api, name).await.term().unwrap());
    }
    assert!(terms.is_sorted_by(|before, after| before < after), "{terms:?}");
    assert_eq!(first.term(), terms.first().copied());
    let written = &api.object(LEASE).unwrap()["metadata"]["annotations"];
    assert_eq!(written[annotation::EPOCH].as_str().map(str::to_owned), terms.last().map(u64::to_string));
    assert_eq!(written[annotation::LINE_ADDRESS], json!("third:8443"));
}

#[tokio::test]
async fn a_process_that_takes_its_own_lease_again_has_a_higher_term() {
    let api = FakeApi::start().await;
    let mut election = won_by(&api, "first").await;
    let term = election.term();
    election.win().await;
    assert!(election.term() > term);
}

/// Returns when the Lease was written again.
async fn renewed(api: &Arc<FakeApi>) {
    let mut changes = api.changes();
    changes.mark_unchanged();
    changes.changed().await.unwrap();
}

#[tokio::test]
async fn a_request_without_an_answer_costs_the_leader_nothing() {
    let api = FakeApi::start().await;
    let mut election = won_by(&api, "first").await;
    // The get and the patch of a renewal, each in its turn.
    for after in [0, 1] {
        api.silence(Silence::One { after });
        tokio::select! {
            error = election.keep() => panic!("{error}"),
            () = renewed(&api) => {}
        }
    }
}

#[tokio::test]
async fn an_api_server_that_stays_silent_ends_the_lead_and_stops_nobody_who_stops() {
    let api = FakeApi::start().await;
    let mut election = won_by(&api, "first").await;
    api.silence(Silence::All);
    assert!(matches!(election.keep().await, Error::Expired { .. }));
    election.release().await;
    assert_eq!(election.term(), None);
}

#[tokio::test]
async fn a_process_that_stands_by_goes_on_trying_after_a_request_without_an_answer() {
    let api = FakeApi::start().await;
    api.silence(Silence::One { after: 0 });
    assert!(won_by(&api, "first").await.term().is_some());
}
