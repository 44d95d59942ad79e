//! Large clusters: what is kept in the status stays small, and views are not read from everybody.

use crate::support::{Outcome, ends_whole, formed, primary_of, replica_of};
use api::conditions::Reason;
use jiff::{SignedDuration, Timestamp};
use planner::nodes::{
    Action, Decision, FindingKind, Following, NodeFacts, NodeObservation, PodObservation, Target, Valkey, decide,
};
use planner::safety::check_commands;
use simulation::Setup;
use std::time::Duration;
use topology::{Location, NodeId, NodeView, PodName, PodUid, Role, SlotSet, ViewSummary, ViewedNode, even};

const MASTERS: usize = 500;
const NAME: &str = "a-cluster-of-a-thousand-nodes";

fn target(masters: usize) -> Target {
    Target {
        cluster: NAME.to_owned(),
        masters,
        replicas_per_master: 1,
        persistent: true,
        node_timeout: Duration::from_secs(5),
        min_replicas_to_write: 0,
    }
}

fn id(index: usize) -> NodeId {
    NodeId::new(format!("{index:040x}"))
}

fn formed_summary(slots: u32, masters: usize) -> ViewSummary {
    ViewSummary {
        state_ok: true,
        current_epoch: 500,
        my_epoch: 1,
        known_nodes: u32::try_from(2 * masters).unwrap_or_default(),
        primaries: u32::try_from(masters).unwrap_or_default(),
        failing_nodes: 0,
        failed_nodes: 0,
        slots_assigned: 16_384,
        slots_mine: slots,
        slots_digest: vec![1; 32],
    }
}

fn line(index: usize, shares: &[SlotSet]) -> ViewedNode {
    let masters = shares.len();
    ViewedNode {
        node_id: id(index),
        ip: format!("10.0.{}.{}", index / 250, index % 250),
        hostname: None,
        role: if index < masters { Role::Primary } else { Role::Replica },
        myself: false,
        failing: false,
        possibly_failing: false,
        handshake: false,
        link_up: true,
        primary: (index >= masters).then(|| id(index - masters)),
        config_epoch: 1,
        slots: shares.get(index).cloned().unwrap_or_default(),
        moves: Vec::new(),
    }
}

fn pod(index: usize, formed: bool, shares: &[SlotSet]) -> PodObservation {
    let slots = shares.get(index).map(SlotSet::count).unwrap_or_default();
    let new = ViewSummary { known_nodes: 1, ..ViewSummary::default() };
    let masters = shares.len().max(1);
    let replica = formed && index >= masters;
    let facts = NodeFacts {
        node_id: id(index),
        role: if replica { Role::Replica } else { Role::Primary },
        loading: false,
        serving: true,
        replication_offset: 1,
        replication_id: Some(format!("{:040x}", index % masters)),
        primary: replica.then(|| id(index - masters)),
        following: if replica { Following::Now } else { Following::Unknown },
        primary_link_up: replica,
        keys: 0,
        started_at: None,
        summary: if formed { formed_summary(slots, masters) } else { new },
    };
    PodObservation {
        ip: Some(format!("10.0.{}.{}", index / 250, index % 250)),
        location: Location { node: Some(format!("n{}", index % 50)), zone: Some(format!("z{}", index % 5)) },
        zone_awaited: false,
        connected: true,
        valkey: Valkey::Answers(facts),
        ..PodObservation::unheard(PodName::new(format!("{NAME}-{index}")), PodUid::new(format!("{index:036x}")))
    }
}

#[test]
fn a_thousand_new_nodes_get_slots_in_one_decision() {
    let seen = NodeObservation {
        pods: (0..1_000).map(|index| pod(index, false, &[])).collect(),
        ..NodeObservation::default()
    };
    let decision = decide(&target(MASTERS), &seen, Timestamp::UNIX_EPOCH);
    assert_eq!(check_commands(&decision.commands, &target(MASTERS), &seen), Ok(()));
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
    let first = decide(&target(MASTERS), &seen, Timestamp::UNIX_EPOCH);
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
    let second = decide(&target(MASTERS), &seen, Timestamp::UNIX_EPOCH);
    println!("one decision took {:?}", began.elapsed());
    let bytes = serde_json::to_vec(&second.shards).unwrap().len();
    println!("status.shards of 1,000 nodes: {bytes} bytes");
    assert_eq!((second.shards.len(), second.commands.len()), (MASTERS, 0), "{:?}", second.plan);
    assert!(second.is(FindingKind::SlotsCovered) && second.is(FindingKind::ViewsAgree));
    assert!(bytes < 300_000, "{bytes} bytes");
}

/// A cluster that has run for a while, and the operator's word on it.
struct Large {
    target: Target,
    seen: NodeObservation,
    shares: Vec<SlotSet>,
    now: Timestamp,
}

impl Large {
    fn whole(masters: usize) -> Large {
        let shares = even(&SlotSet::all(), masters);
        let pods = (0..2 * masters).map(|index| pod(index, true, &shares)).collect();
        let seen = NodeObservation { pods, ..NodeObservation::default() };
        let mut large = Large { target: target(masters), seen, shares, now: Timestamp::UNIX_EPOCH };
        large.look(None);
        large.look(None);
        large
    }

    /// Decides once, and lets whoever was asked tell its view, in which this node has failed.
    fn look(&mut self, failed: Option<usize>) -> Decision {
        self.now += SignedDuration::from_secs(1);
        let decision = decide(&self.target, &self.seen, self.now);
        assert_eq!(check_commands(&decision.commands, &self.target, &self.seen), Ok(()));
        let asked = decision.commands.iter().filter(|command| command.action == Action::ReadView);
        for name in asked.map(|command| command.pod.clone()).collect::<Vec<_>>() {
            self.tell(&name, failed);
        }
        (self.seen.recorded, self.seen.running) = (decision.shards.clone(), decision.orchestration.clone());
        decision
    }

    fn tell(&mut self, name: &PodName, failed: Option<usize>) {
        let (read_at, count) = (self.now, self.seen.pods.len());
        let mut pods = self.seen.pods.iter_mut().enumerate();
        let Some((speaker, pod)) = pods.find(|(_, pod)| pod.name == *name) else { return };
        let Valkey::Answers(facts) = &pod.valkey else { return };
        let says = |index: usize| {
            let (myself, failing) = (index == speaker, failed == Some(index));
            ViewedNode { myself, failing, link_up: !failing, ..line(index, &self.shares) }
        };
        pod.view = Some(NodeView { read_at, summary: facts.summary.clone(), nodes: (0..count).map(says).collect() });
    }

    /// The machine of the first primary is gone: nobody beside it can tell, and all others call it failed.
    fn lose_the_first(&mut self) {
        let last_answer = Some(self.now);
        for first in self.seen.pods.iter_mut().take(1) {
            (first.connected, first.valkey, first.view) = (false, Valkey::Unknown, None);
            first.last_answer = last_answer;
        }
        for pod in &mut self.seen.pods {
            if let Valkey::Answers(facts) = &mut pod.valkey {
                (facts.summary.failing_nodes, facts.summary.failed_nodes) = (1, 1);
            }
        }
    }

    fn replica_follows(&mut self, following: Following) {
        let replica = self.seen.pods.get_mut(self.target.masters).map(|pod| &mut pod.valkey);
        if let Some(Valkey::Answers(facts)) = replica {
            (facts.following, facts.primary_link_up) = (following, following == Following::Now);
        }
    }
}

#[test]
fn a_dead_machine_in_a_large_cluster_ends_in_a_failover_or_in_a_named_reason() {
    for masters in [17, 50, 300] {
        for (old, ends_well) in [(false, true), (true, false)] {
            let mut large = Large::whole(masters);
            assert_eq!(large.seen.recorded.len(), masters);
            large.lose_the_first();
            let lost = if old { Timestamp::UNIX_EPOCH - SignedDuration::from_secs(3_600) } else { large.now };
            large.replica_follows(Following::Until(lost));
            let decisions: Vec<Decision> = (0..8).map(|_| large.look(Some(0))).collect();
            let forced = |decision: &Decision| {
                decision.commands.iter().any(|command| matches!(command.action, Action::Failover(..)))
            };
            let named =
                |decision: &Decision| decision.findings.iter().any(|finding| finding.reason == Reason::OnlyOlderCopy);
            assert_eq!(decisions.iter().any(forced), ends_well, "{masters}");
            assert_eq!(decisions.last().is_some_and(named), !ends_well, "{masters}: {:?}", decisions.last());
            let most = decisions.iter().map(|decision| decision.commands.len()).max().unwrap_or_default();
            assert!(most <= masters / 2 + 30, "{most} commands at once in a cluster of {masters}");
        }
    }
}

/// The slowest scenario here: a hundred nodes gossip with each other.
#[test]
fn of_fifty_shards_the_one_whose_only_copy_is_old_is_named_when_its_machine_is_gone() -> Outcome {
    let mut stage = formed(71, &[Setup { masters: 50, kubernetes_nodes: 50, ..Setup::default() }])?;
    let primary = primary_of(&stage, 0);
    let replica = replica_of(&stage, &primary);
    stage.world.unlinked.insert(replica.clone());
    // Valkey itself does not elect one that has not followed since its start.
    stage.world.node_mut(&replica).into_iter().for_each(|node| (node.link_up, node.link_lost_at) = (false, None));
    let machine = stage.world.pods.get(&primary).map(|pod| pod.kubernetes_node.clone());
    stage.world.cut.extend(machine);
    stage.run(12_000)?;
    let older = stage.operators[0].decision.findings.iter().find(|finding| finding.reason == Reason::OnlyOlderCopy);
    assert!(older.is_some_and(|finding| finding.message.contains(&replica)), "{}", stage.complaint());
    Ok(())
}

/// Only some views are read of so many nodes, and the sources of the slots are not among them.
#[test]
fn a_large_cluster_becomes_larger() -> Outcome {
    let setup = Setup { masters: 17, kubernetes_nodes: 6, ..Setup::default() };
    let mut stage = formed(72, std::slice::from_ref(&setup))?;
    stage.operators[0].target.masters = 18;
    (34..36).for_each(|ordinal| stage.world.add_pod(&setup, ordinal));
    ends_whole(&mut stage, 120_000)?;
    assert_eq!(stage.operators[0].durable.shards.len(), 18, "{}", stage.complaint());
    Ok(())
}
