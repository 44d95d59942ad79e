//! Large clusters: what is kept in the status stays small, and views are not read from everybody.

use jiff::Timestamp;
use planner::nodes::{Action, FindingKind, NodeFacts, NodeObservation, PodObservation, Target, Valkey, decide};
use planner::safety::check_commands;
use std::time::Duration;
use topology::{Location, NodeId, NodeView, PodName, PodUid, Role, SlotSet, ViewSummary, ViewedNode, even};

const MASTERS: usize = 500;

fn target() -> Target {
    Target { masters: MASTERS, replicas_per_master: 1, persistent: true, node_timeout: Duration::from_secs(5) }
}

fn id(index: usize) -> NodeId {
    NodeId::new(format!("{index:040x}"))
}

fn formed_summary(slots: u32) -> ViewSummary {
    ViewSummary {
        state_ok: true,
        current_epoch: 500,
        my_epoch: 1,
        known_nodes: 1_000,
        primaries: 500,
        failing_nodes: 0,
        slots_assigned: 16_384,
        slots_mine: slots,
        slots_digest: vec![1; 32],
    }
}

fn line(index: usize, shares: &[SlotSet]) -> ViewedNode {
    ViewedNode {
        node_id: id(index),
        ip: format!("10.0.{}.{}", index / 250, index % 250),
        hostname: None,
        role: if index < MASTERS { Role::Primary } else { Role::Replica },
        myself: false,
        failing: false,
        possibly_failing: false,
        handshake: false,
        link_up: true,
        primary: (index >= MASTERS).then(|| id(index - MASTERS)),
        config_epoch: 1,
        slots: shares.get(index).cloned().unwrap_or_default(),
    }
}

fn pod(index: usize, formed: bool, shares: &[SlotSet]) -> PodObservation {
    let slots = shares.get(index).map(SlotSet::count).unwrap_or_default();
    let new = ViewSummary { known_nodes: 1, ..ViewSummary::default() };
    let replica = formed && index >= MASTERS;
    let facts = NodeFacts {
        node_id: id(index),
        role: if replica { Role::Replica } else { Role::Primary },
        loading: false,
        replication_offset: 1,
        replication_id: Some(format!("{:040x}", index % MASTERS)),
        primary: replica.then(|| id(index - MASTERS)),
        following: planner::nodes::Following::Untold,
        primary_link_up: replica,
        keys: 0,
        started_at: None,
        summary: if formed { formed_summary(slots) } else { new },
    };
    PodObservation {
        ip: Some(format!("10.0.{}.{}", index / 250, index % 250)),
        location: Location { node: Some(format!("n{}", index % 50)), zone: Some(format!("z{}", index % 5)) },
        connected: true,
        valkey: Valkey::Answers(facts),
        ..PodObservation::unheard(
            PodName::new(format!("a-cluster-of-a-thousand-nodes-{index}")),
            PodUid::new(index.to_string()),
        )
    }
}

#[test]
fn a_thousand_new_nodes_get_slots_in_one_decision() {
    let seen = NodeObservation {
        pods: (0..1_000).map(|index| pod(index, false, &[])).collect(),
        ..NodeObservation::default()
    };
    let decision = decide(&target(), &seen, Timestamp::UNIX_EPOCH);
    assert_eq!(check_commands(&decision.commands, &target(), &seen), Ok(()));
    let granted = decision.commands.iter().filter(|command| matches!(command.action, Action::AddSlots(_))).count();
    let record = serde_json::to_string(&decision.orchestration).unwrap();
    assert_eq!(granted, MASTERS);
    assert!(record.len() < 2_000, "{record}");
}

#[test]
fn the_status_of_a_thousand_nodes_is_small_and_few_are_asked_for_their_view() {
    let shares = even(&SlotSet::all(), MASTERS);
    let mut seen = NodeObservation {
        pods: (0..1_000).map(|index| pod(index, true, &shares)).collect(),
        ..NodeObservation::default()
    };
    let first = decide(&target(), &seen, Timestamp::UNIX_EPOCH);
    let asked: Vec<&PodName> = first.commands.iter().map(|command| &command.pod).collect();
    assert!(!asked.is_empty() && asked.len() <= 24, "{} nodes are asked", asked.len());
    let lines: Vec<ViewedNode> = (0..1_000).map(|index| line(index, &shares)).collect();
    for (index, pod) in seen.pods.iter_mut().enumerate().filter(|(_, pod)| asked.contains(&&pod.name)) {
        let Valkey::Answers(facts) = &pod.valkey else { continue };
        let mut nodes = lines.clone();
        nodes[index].myself = true;
        pod.view = Some(NodeView { read_at: Timestamp::UNIX_EPOCH, summary: facts.summary.clone(), nodes });
    }
    let began = std::time::Instant::now();
    let second = decide(&target(), &seen, Timestamp::UNIX_EPOCH);
    println!("one decision took {:?}", began.elapsed());
    let bytes = serde_json::to_vec(&second.shards).unwrap().len();
    println!("status.shards of 1,000 nodes: {bytes} bytes");
    assert_eq!((second.shards.len(), second.commands.len()), (MASTERS, 0), "{:?}", second.plan);
    assert!(second.is(FindingKind::SlotsCovered) && second.is(FindingKind::ViewsAgree));
    assert!(bytes < 300_000, "{bytes} bytes");
}
