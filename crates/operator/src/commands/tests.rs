use super::*;
use link::contract::{Condition, Done, HeartbeatRequest, NodeState, Role};
use link::server::{Leadership, ProvenPod, Sidecar};
use std::time::Duration;
use tokio::sync::watch;

fn cluster(uid: &str) -> ObjectId {
    let key = ObjectKey::cluster("team-a", "orders");
    ObjectId { api_version: "valkey.io/v1alpha1".into(), key, uid: uid.into() }
}

fn pod(uid: &str) -> PodFacts {
    PodFacts { name: "orders-0".into(), uid: uid.into(), ..PodFacts::default() }
}

fn speaks(line: &Line, cluster_uid: &str, pod_uid: &str) -> Sidecar {
    let pod = ProvenPod {
        namespace: "team-a".into(),
        cluster: "orders".into(),
        cluster_uid: cluster_uid.into(),
        pod: "orders-0".into(),
        pod_uid: pod_uid.into(),
    };
    let certificate = pki::LeafFacts {
        id: pki::identity::sidecar("team-a", "orders").unwrap(),
        thumbprint: pki::Thumbprint::recorded("a"),
        not_before: Timestamp::UNIX_EPOCH,
        not_after: Timestamp::UNIX_EPOCH,
    };
    let address = ([127, 0, 0, 1], 1).into();
    let sidecar = Sidecar { pod, version: "0.1.0".into(), certificate, address, connection: 1 };
    let (role, condition) = (Role::Primary.into(), Condition::Ready.into());
    let node = NodeState { node_id: "a".repeat(40), role, condition, ..NodeState::default() };
    line.roster.heartbeat(&sidecar, HeartbeatRequest { node: Some(node), ..HeartbeatRequest::default() });
    sidecar
}

fn dispatcher() -> CommandDispatcher {
    let (_, leadership) = watch::channel(Leadership::Leader { epoch: 1 });
    CommandDispatcher::new(Arc::new(Line::new(leadership)))
}

#[test]
fn a_pod_left_over_from_an_earlier_cluster_of_this_name_says_nothing_about_the_new_one() {
    let dispatcher = dispatcher();
    speaks(&dispatcher.line, "old", "pod");
    let seen = |of: ObjectId| dispatcher.seen(&of, &[pod("pod")], &Zones::default()).remove(0);
    assert!(seen(cluster("old")).connected && matches!(seen(cluster("old")).valkey, Valkey::Answers(_)));
    assert!(!seen(cluster("new")).connected && matches!(seen(cluster("new")).valkey, Valkey::Unknown));
}

#[test]
fn of_a_lost_connection_it_is_known_when_the_node_last_answered() {
    let dispatcher = dispatcher();
    let sidecar = speaks(&dispatcher.line, "cluster", "pod");
    let seen = || dispatcher.seen(&cluster("cluster"), &[pod("pod")], &Zones::default()).remove(0);
    assert_eq!(seen().last_answer, None, "it answers now");
    let heard = dispatcher.line.roster.of_pod("pod").unwrap().last_heartbeat;
    dispatcher.line.roster.disconnected(&sidecar);
    assert_eq!((seen().connected, seen().valkey, seen().last_answer), (false, Valkey::Unknown, Some(heard)));
    assert_eq!(dispatcher.seen(&cluster("cluster"), &[pod("new")], &Zones::default()).remove(0).last_answer, None);
}

#[test]
fn after_the_clock_was_set_back_a_heartbeat_is_believed_again() {
    let dispatcher = dispatcher();
    speaks(&dispatcher.line, "cluster", "pod");
    let facts = dispatcher.line.roster.of_pod("pod").unwrap();
    let (before, after) =
        (facts.last_heartbeat + Duration::from_secs(300), facts.last_heartbeat + Duration::from_secs(1));
    let state = NodeState { node_id: "b".repeat(40), role: Role::Replica.into(), ..NodeState::default() };
    let mut memory = NodeMemory::default();
    memory.learn(&Done { node: Some(state), ..Done::default() }, 1, before);
    let mut heard = |now| match memory.valkey(&facts, now) {
        Valkey::Answers(facts) => facts.node_id.as_str().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(heard(before + Duration::from_secs(1)), "b".repeat(40), "the answer is newer");
    assert_eq!(heard(after), "a".repeat(40));
}

#[test]
fn the_streams_of_pods_and_clusters_that_are_gone_are_let_go() {
    let dispatcher = dispatcher();
    let streams = &dispatcher.line.streams;
    dispatcher.seen(&cluster("cluster"), &[pod("one"), pod("two")], &Zones::default());
    streams.expect("one");
    streams.expect("two");
    dispatcher.seen(&cluster("cluster"), &[pod("two")], &Zones::default());
    assert!(!streams.wants("one") && streams.wants("two"));
    dispatcher.end(&cluster("cluster").key);
    assert!(!streams.wants("two"));
}

#[tokio::test]
async fn an_answer_that_comes_after_its_cluster_is_gone_brings_nothing_back() {
    let dispatcher = Arc::new(dispatcher());
    dispatcher.seen(&cluster("cluster"), &[pod("one")], &Zones::default());
    dispatcher.end(&cluster("cluster").key);
    assert!(
        !dispatcher.change(&cluster("cluster"), "one", |memory| memory.under_way = vec![planner::nodes::Action::Probe])
    );
    let command_context = CommandContext { cluster: cluster("cluster"), orchestration: "read".into(), step_version: 0 };
    let action = planner::nodes::Action::Probe;
    dispatcher
        .carry_out(
            "one",
            &[planner::nodes::PodCommand { pod: "orders-0".into(), pod_uid: "one".into(), action }],
            &command_context,
        )
        .await;
    assert!(dispatcher.clusters.count() == 0);
}
