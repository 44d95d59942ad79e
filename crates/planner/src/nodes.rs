//! What the Valkey nodes are told and what is said about them: `orchestration::decide`, fed from one look. Pure; a part of `plan`.

use crate::observation::Observation;
use api::conditions::Reason;
use api::node_settings::NODE_TIMEOUT;
use k8s_openapi::jiff::Timestamp;
use manifests::ValidatedCluster;
use orchestration::{Decision, FindingKind, Orchestration, PodCommand, PodSeen, Queued, ShardStatus, Valkey, Wanted};
use std::time::Duration;

/// How often a paused cluster is looked at while something is to be done about it.
const WATCHING: Duration = Duration::from_secs(2);

/// What the line knows of the nodes, and what the status last recorded of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesSeen {
    pub pods: Vec<PodSeen>,
    pub recorded: Vec<ShardStatus>,
    pub running: Option<Orchestration>,
    pub queue: Vec<Queued>,
}

/// The commands, and the decision they belong to.
pub fn decide(
    cluster: &ValidatedCluster,
    observation: &Observation,
    now: Timestamp,
) -> Option<(Vec<PodCommand>, Decision)> {
    let seen = observation.nodes.as_ref()?;
    let wanted = Wanted {
        masters: usize::try_from(cluster.master_count).unwrap_or(usize::MAX),
        replicas_per_master: usize::try_from(cluster.replicas_per_master).unwrap_or(usize::MAX),
        persistent: cluster.storage.is_some(),
        node_timeout: NODE_TIMEOUT,
    };
    let facts = orchestration::Observation { pods: seen.pods.clone(), recorded: seen.recorded.clone() };
    let mut decision = orchestration::decide(&wanted, &facts, seen.running.as_ref(), &seen.queue, now);
    if let Err(violation) = orchestration::sane(&decision, &wanted, &facts) {
        // A mistake of ours must not reach the data: nothing is done, and it is told. Nodes are still looked at, or a mistake made
        // on an old view would never end.
        decision.commands.retain(|command| is_harmless(command, &facts.pods));
        decision.findings.push(refusal(&violation));
    }
    Some((std::mem::take(&mut decision.commands), decision))
}

/// It only looks, and at a pod that is there to be asked.
fn is_harmless(command: &PodCommand, pods: &[PodSeen]) -> bool {
    let asked = |pod: &PodSeen| pod.uid == command.pod_uid && pod.connected && !pod.is_busy();
    command.action.is_reading() && pods.iter().any(asked)
}

fn refusal(violation: &orchestration::Violation) -> orchestration::Finding {
    orchestration::Finding {
        kind: FindingKind::Degraded,
        status: Some(true),
        reason: orchestration::Reason::UnsafePlan,
        message: format!("a plan was dropped because it would endanger data, please report this: {violation}"),
    }
}

/// A paused cluster is looked at and told nothing else; what would be done is not begun, so it is not told as begun either.
pub fn only_watch(decision: &mut Decision, commands: &mut Vec<PodCommand>, seen: &NodesSeen) {
    commands.retain(|command| command.action.is_reading());
    decision.events.clear();
    decision.orchestration.clone_from(&seen.running);
    decision.queue.clone_from(&seen.queue);
    decision.look_again = decision.look_again.map(|soon| soon.max(WATCHING));
}

/// A leader that has just begun has not heard everybody, nor read what each of them sees: what was true before stands until it has.
pub fn are_returning(observation: &Observation) -> bool {
    let unread = |seen: &PodSeen| matches!(seen.valkey, Valkey::Answers(_)) && seen.view.is_none();
    let unheard = |seen: &PodSeen| !seen.terminating && (!seen.connected || unread(seen));
    observation.line.returning && observation.nodes.as_ref().is_some_and(|nodes| nodes.pods.iter().any(unheard))
}

/// The condition reason of a finding.
pub fn reason(reason: orchestration::Reason) -> Reason {
    use orchestration::Reason as Found;
    match reason {
        Found::AllSlotsCovered => Reason::AllSlotsCovered,
        Found::SlotsMissing => Reason::SlotsMissing,
        Found::PrimaryDown => Reason::PrimaryDown,
        Found::AllReplicasInSync => Reason::AllReplicasInSync,
        Found::ReplicasMissing => Reason::ReplicasMissing,
        Found::ReplicasSyncing => Reason::ReplicasSyncing,
        Found::ViewsEqual => Reason::ViewsEqual,
        Found::ViewsDiffer => Reason::ViewsDiffer,
        Found::NotFormed => Reason::NotFormed,
        Found::NotHeard => Reason::NotHeard,
        Found::AsExpected => Reason::AsExpected,
        Found::ForeignNode => Reason::ForeignNode,
        Found::DuplicateNode => Reason::DuplicateNode,
        Found::DamagedNode => Reason::DamagedNode,
        Found::UnknownNode => Reason::UnknownNode,
        Found::ShardLost => Reason::ShardLost,
        Found::OnlyOlderCopy => Reason::OnlyOlderCopy,
        Found::MajorityLost => Reason::MajorityLost,
        Found::NotSupportedYet => Reason::NotSupportedYet,
        Found::UnsafePlan => Reason::UnsafePlan,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sidecars::LineFacts;
    use orchestration::{Action, FailoverMode, NodeFacts};
    use topology::{NodeView, ViewSummary};

    fn answering(view: Option<NodeView>) -> PodSeen {
        let valkey = Valkey::Answers(NodeFacts::fresh("a".into()));
        PodSeen { valkey, view, connected: true, ..silent() }
    }

    fn silent() -> PodSeen {
        PodSeen::unheard("poc-0".into(), "uid".into())
    }

    fn read() -> Option<NodeView> {
        Some(NodeView { read_at: Timestamp::UNIX_EPOCH, summary: ViewSummary::default(), nodes: Vec::new() })
    }

    fn returning(pods: Vec<PodSeen>, new_leader: bool) -> bool {
        let line = LineFacts { returning: new_leader, ..LineFacts::default() };
        are_returning(&Observation {
            line,
            nodes: Some(NodesSeen { pods, ..NodesSeen::default() }),
            ..Default::default()
        })
    }

    #[test]
    fn a_new_leader_knows_the_nodes_once_it_has_heard_and_read_every_one() {
        assert!(returning(vec![answering(read()), silent()], true));
        assert!(returning(vec![answering(read()), answering(None)], true), "heard, and what it sees is not read yet");
        assert!(!returning(vec![answering(read()), answering(read())], true));
        assert!(
            !returning(vec![answering(None), silent()], false),
            "it has led for a while: whoever is silent is missed"
        );
    }

    #[test]
    fn a_node_that_is_down_or_going_is_not_waited_for() {
        let down = Valkey::Down { since: Timestamp::UNIX_EPOCH, node_id: None };
        assert!(!returning(vec![PodSeen { connected: true, valkey: down, ..silent() }], true));
        assert!(!returning(vec![PodSeen { terminating: true, ..silent() }], true));
    }

    fn heard(connected: bool, busy: bool) -> PodSeen {
        let under_way = if busy { vec![Action::ReadView] } else { Vec::new() };
        PodSeen { connected, under_way, ..silent() }
    }

    #[test]
    fn of_a_dropped_plan_only_looks_at_pods_that_can_be_asked_are_left() {
        let command = |action| PodCommand { pod: "poc-0".into(), pod_uid: "uid".into(), action };
        let (look, act) = (command(Action::ReadView), command(Action::Failover(FailoverMode::Force)));
        assert!(is_harmless(&look, &[heard(true, false)]) && !is_harmless(&act, &[heard(true, false)]));
        assert!(!is_harmless(&look, &[heard(true, true)]) && !is_harmless(&look, &[heard(false, false)]));
        assert!(!is_harmless(&look, &[]));
    }
}
