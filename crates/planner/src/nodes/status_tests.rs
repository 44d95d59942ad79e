//! The record survives the way into a status, through JSON, and back; what a newer operator wrote is read as far as it goes.

use super::*;
use crate::nodes::{Answers, OrchestrationKind, Setback, Stage};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;
use topology::{SlotRange, SlotSet};

fn roles() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::Primary, Role::Replica])
}

fn states() -> impl Strategy<Value = NodeState> {
    use NodeState::{Down, Lost, Online, Syncing, Unknown};
    prop::sample::select(vec![Online, Syncing, Down, Unknown, Lost])
}

fn kinds() -> impl Strategy<Value = OrchestrationKind> {
    use OrchestrationKind::{Failover, Form, Heal, Scale};
    prop::sample::select(vec![Failover, Form, Heal, Scale])
}

fn stages() -> impl Strategy<Value = Stage> {
    use Stage::{
        AssignSlots, AwaitPods, Forget, HandOver, Leave, Meet, MeetPrimaries, MoveSlots, OpenGates, Promote, ReadViews,
        Replicate, Verify,
    };
    prop::sample::select(vec![
        AwaitPods,
        ReadViews,
        Promote,
        OpenGates,
        AssignSlots,
        MeetPrimaries,
        Meet,
        Replicate,
        Forget,
        MoveSlots,
        HandOver,
        Leave,
        Verify,
    ])
}

fn moments() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_000_i64).prop_map(|milliseconds| Timestamp::from_millisecond(milliseconds).unwrap())
}

fn slots() -> impl Strategy<Value = SlotSet> {
    let range = (0..16_384_u16, 0..100_u16).prop_map(|(first, more)| SlotRange::new(first, (first + more).min(16_383)));
    prop::collection::vec(range, 0..4).prop_map(|ranges| SlotSet::of(ranges).unwrap())
}

fn nodes() -> impl Strategy<Value = ShardNode> {
    let pods = ("[a-z]{1,5}-[0-9]", prop::option::of("[0-9a-f]{8}"));
    (pods, "[0-9a-f]{40}", roles(), states()).prop_map(|((pod, uid), id, role, state)| ShardNode {
        pod: pod.as_str().into(),
        pod_uid: uid.as_deref().map(Into::into),
        node_id: id.as_str().into(),
        role,
        state,
    })
}

fn any_shard() -> impl Strategy<Value = Shard> {
    ("shard-[0-9]", slots(), prop::option::of("[0-9a-f]{40}"), prop::collection::vec(nodes(), 0..4))
        .prop_map(|(id, slots, replication_id, nodes)| Shard { id: id.as_str().into(), slots, replication_id, nodes })
}

fn answers() -> impl Strategy<Value = Answers> {
    let trouble = (".{1,9}", ".{0,20}").prop_map(|(pod, message)| Setback { pod: pod.as_str().into(), message });
    (any::<u32>(), any::<u32>(), any::<u32>(), prop::collection::vec(trouble, 0..3))
        .prop_map(|(done, failed, refused, troubles)| Answers { done, failed, refused, troubles })
}

fn orchestrations() -> impl Strategy<Value = Orchestration> {
    let moments = (moments(), moments());
    (".{1,9}", kinds(), stages(), any::<u64>(), moments, prop::option::of(".{0,9}"), answers()).prop_map(
        |(id, kind, step, step_version, (started_at, step_started_at), waiting_for, answers)| Orchestration {
            announced: step_version % 2 == 0,
            id,
            kind,
            step,
            step_version,
            started_at,
            step_started_at,
            waiting_for,
            answers,
        },
    )
}

fn queues() -> impl Strategy<Value = Vec<Queued>> {
    let queued = (kinds(), moments(), ".{0,20}").prop_map(|(kind, since, why)| Queued { kind, since, why });
    prop::collection::vec(queued, 0..3)
}

fn records() -> impl Strategy<Value = NodeRecord> {
    (prop::collection::vec(any_shard(), 0..4), prop::option::of(orchestrations()), queues())
        .prop_map(|(shards, orchestration, queue)| NodeRecord { shards, orchestration, queue })
}

proptest! {
    #[test]
    fn a_record_comes_back_from_the_status_as_it_was(record in records()) {
        let status = ValkeyClusterStatus {
            shards: shards(&record.shards),
            orchestration: orchestration(record.orchestration.as_ref()),
            queue: queue(&record.queue),
            ..ValkeyClusterStatus::default()
        };
        let stored = serde_json::to_string(&status).unwrap();
        prop_assert_eq!(NodeRecord::read(&serde_json::from_str(&stored).unwrap()), record);
    }
}

#[test]
fn a_word_of_a_newer_operator_costs_its_own_entry_and_no_shard() {
    let moment = "2026-01-01T00:00:00Z";
    let node = |pod: &str, role: &str, state: &str| json!({"pod": pod, "nodeId": pod, "role": role, "state": state});
    let running = json!({"id": "x", "kind": "Heal", "step": "Dig", "stepVersion": 7, "startedAt": moment, "stepStartedAt": moment});
    let nodes = [node("p-0", "primary", "asleep"), node("p-1", "arbiter", "online")];
    let stored = json!({
        "orchestration": running,
        "queue": [{"kind": "Terraform", "since": moment, "why": ""}, {"kind": "Form", "since": moment, "why": ""}],
        "shards": [{"id": "shard-0", "slots": "0-9", "nodes": nodes}],
    });
    let record = NodeRecord::read(&serde_json::from_value(stored).unwrap());
    assert_eq!(record.orchestration, None);
    assert_eq!(record.queue.iter().map(|queued| queued.kind).collect::<Vec<_>>(), [OrchestrationKind::Form]);
    let seen: Vec<_> = record.shards[0].nodes.iter().map(|node| (node.pod.as_str(), node.role, node.state)).collect();
    let expected = [("p-0", Role::Primary, NodeState::Unknown), ("p-1", Role::Replica, NodeState::Online)];
    assert_eq!(seen, expected);
}
