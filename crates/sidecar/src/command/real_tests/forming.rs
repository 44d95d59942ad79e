use super::cluster::{Node, SLOTS, add_slots, at, eventually, formed, meet, replicate};
use link::contract::{
    AddSlots, ApplySettings, Condition, Forget, Meet, Probe, RefusedReason, Role, SetConfigEpoch, answer::Outcome,
    command::Action,
};
use std::time::Duration;
use valkey::testing::{BOTH_VERSIONS, ServerVersion};

fn set_epoch(config_epoch: u64) -> Action {
    Action::SetConfigEpoch(SetConfigEpoch { config_epoch })
}

#[tokio::test]
async fn a_cluster_is_formed_and_every_step_done_twice_changes_nothing_the_second_time() {
    for version in BOTH_VERSIONS {
        let nodes = [Node::start(version), Node::start(version)];
        let [primary, replica] = &nodes;
        for (node, epoch) in [(primary, 1), (replica, 2)] {
            let first = node.done(set_epoch(epoch)).await;
            assert!(first.changed && first.did.contains("SET-CONFIG-EPOCH") && first.found.contains("0 other nodes"));
            assert!(!node.done(set_epoch(epoch)).await.changed);
        }
        assert!(primary.done(meet(&nodes)).await.changed);
        assert!(!primary.done(meet(&nodes)).await.changed);
        primary.is_unsafe(set_epoch(7), "new and alone").await;
        let all = (0, 16_383);
        let taken = primary.done(add_slots(all)).await;
        assert!(taken.changed && taken.did == "took 16384 slots in 1 ranges", "{taken:?}");
        assert!(!primary.done(add_slots(all)).await.changed);
        assert!(replica.done(replicate(&primary.id().await)).await.changed);
        let again = replica.done(replicate(&primary.id().await)).await;
        assert!(!again.changed && again.found.contains("a replica of") && again.did.is_empty());
        assert_eq!(again.node.unwrap().role(), Role::Replica);
    }
}

#[tokio::test]
async fn whoever_was_met_hears_of_the_slots() {
    for version in BOTH_VERSIONS {
        let nodes: Vec<Node> = (0..6).map(|_| Node::start(version)).collect();
        nodes[0].done(add_slots(SLOTS[0])).await;
        nodes[0].done(meet(&nodes)).await;
        for node in &nodes {
            eventually("the slots are known", async || node.view().await.summary.unwrap().slots_assigned == 5461).await;
        }
    }
}

#[tokio::test]
async fn the_view_tells_addresses_roles_slots_and_the_own_shard() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let view = nodes[3].view().await;
        assert_eq!(view.nodes.len(), 6);
        assert_eq!(view.summary.unwrap().slots_assigned, 16_384);
        let primary = view.nodes.iter().find(|node| node.slots.iter().any(|range| range.first == 0)).unwrap();
        assert_eq!((primary.role(), primary.link_up, primary.failing), (Role::Primary, true, false));
        assert_eq!(primary.address, Some(at(nodes[0].server.port)));
        assert_eq!((primary.slots[0].first, primary.slots[0].last), SLOTS[0]);
        let own = view.nodes.iter().find(|node| node.myself).unwrap();
        assert_eq!((own.role(), own.primary_node_id.as_str()), (Role::Replica, primary.node_id.as_str()));
        let shard: Vec<_> = view.nodes.iter().filter(|node| !node.shard_id.is_empty()).collect();
        assert!(shard.len() == 2 && shard[0].shard_id == shard[1].shard_id, "{shard:?}");
    }
}

#[tokio::test]
async fn a_probe_tells_the_state_and_fails_when_nobody_answers_in_time() {
    let mut node = Node::start(ServerVersion::V9_1);
    let done = node.done(Action::Probe(Probe {})).await;
    let state = done.node.unwrap();
    assert!(!done.changed && state.valkey_version.starts_with("9.1") && !state.run_id.is_empty());
    assert_ne!(state.condition(), Condition::Unspecified);
    node.server.freeze().unwrap();
    let frozen = node.run_within(Action::Probe(Probe {}), Duration::from_millis(600)).await;
    assert!(matches!(frozen, Outcome::Failed(_)), "{frozen:?}");
    node.server.thaw().unwrap();
    node.server.kill().unwrap();
    assert!(matches!(node.run(Action::Probe(Probe {})).await, Outcome::Failed(_)));
}

#[tokio::test]
async fn what_is_not_a_command_is_refused_with_the_field() {
    let node = Node::start(ServerVersion::V8_1);
    let mut bad_address = at(7000);
    bad_address.ip = "example".into();
    let own = node.id().await;
    let cases = [
        (Action::Meet(Meet::default()), "nodes is empty"),
        (Action::Meet(Meet { nodes: vec![bad_address] }), "ip of"),
        (Action::AddSlots(AddSlots::default()), "ranges is empty"),
        (add_slots((5, 4)), "first must not be above last"),
        (set_epoch(0), "config_epoch is 0"),
        (replicate(""), "primary_node_id is empty"),
        (replicate(&own), "this node itself"),
        (Action::Forget(Forget::default()), "node_ids is empty"),
        (Action::ApplySettings(ApplySettings::default()), "revision is empty"),
    ];
    for (action, part) in cases {
        let (reason, detail) = node.refused(action).await;
        assert_eq!(reason, RefusedReason::Invalid, "{detail}");
        assert!(detail.contains(part), "{detail}");
    }
}

#[tokio::test]
async fn settings_are_waited_for_and_their_problem_is_told() {
    let node = Node::start(ServerVersion::V9_1);
    let apply = || Action::ApplySettings(ApplySettings { revision: "abc".into() });
    node.context.shared.lock().settings_problem = Some("settings.json is not valid".into());
    match node.run_within(apply(), Duration::from_millis(500)).await {
        Outcome::Failed(failed) => assert!(failed.deadline_passed && failed.detail.contains("is not valid")),
        other => panic!("{other:?}"),
    }
    let shared = node.context.shared.clone();
    let (done, ()) = tokio::join!(node.done(apply()), async move {
        shared.review_asked_for().await;
        shared.lock().settings_revision = Some("abc".into());
    });
    assert!(done.changed && done.did == "applied settings abc");
    assert!(!node.done(apply()).await.changed);
}
