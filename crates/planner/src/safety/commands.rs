//! The rules for commands to nodes. Pure.

use super::Violation;
use crate::nodes::{
    Action, Boot, FailoverMode, Following, NodeFacts, NodeObservation, NodeState, Outcome, Peer, PodCommand,
    PodObservation, ShardNode, Start, Target, Valkey,
};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;
use topology::{NodeId, NodeView, PodName, Position, Role, SlotSet, ViewedNode};

/// The first command that breaks a rule.
pub fn check_commands(commands: &[PodCommand], target: &Target, seen: &NodeObservation) -> Result<(), Violation> {
    for command in commands {
        check(command, target, seen).map_err(|rule| violation(command, rule))?;
    }
    no_slot_twice(commands)
}

fn violation(command: &PodCommand, rule: &str) -> Violation {
    Violation { step: command.to_string(), rule: rule.to_owned() }
}

fn no_slot_twice(commands: &[PodCommand]) -> Result<(), Violation> {
    let mut given = SlotSet::default();
    for command in commands {
        if let Action::AddSlots(slots) = &command.action {
            if slots.overlaps(&given) {
                return Err(violation(command, "another node is given the same slots"));
            }
            given = given.union(slots);
        }
    }
    Ok(())
}

type Verdict = Result<(), &'static str>;

const ENDING: &str = "its pod is about to end";

/// Nobody is given slots or a primary whom the StatefulSet, as it is now, leaves out.
pub fn check_size(commands: &[PodCommand], size: u32) -> Result<(), Violation> {
    let left_out = |pod: &PodName| pod.ordinal().is_none_or(|ordinal| ordinal as u64 >= u64::from(size));
    let given = |action: &Action| matches!(action, Action::AddSlots(_) | Action::Replicate(_));
    let broken = commands.iter().find(|command| given(&command.action) && left_out(&command.pod));
    broken.map_or(Ok(()), |command| Err(violation(command, ENDING)))
}

fn check(command: &PodCommand, target: &Target, seen: &NodeObservation) -> Verdict {
    let pod = seen.pods.iter().find(|pod| pod.uid == command.pod_uid).ok_or("no such pod was seen")?;
    ensure(pod.name == command.pod, "the pod has another name")?;
    ensure(pod.connected, "its sidecar is not on the line")?;
    ensure(!pod.is_busy(), "it is carrying out another command")?;
    ensure(!disturbs_election(pod, &command.action, seen), "an election of its shard is under way")?;
    match &command.action {
        Action::Probe | Action::ReadView => Ok(()),
        Action::Meet(peers) => peers.iter().try_for_each(|peer| meet(pod, peer, seen)),
        Action::AddSlots(slots) => ensure(!pod.terminating, ENDING).and_then(|()| add_slots(pod, slots, target, seen)),
        Action::SetConfigEpoch(_) => {
            ensure(answers(pod).is_some_and(|facts| facts.role == Role::Primary), "it is no primary")
        }
        Action::Replicate(id) => ensure(!pod.terminating, ENDING).and_then(|()| replicate(pod, id, seen)),
        Action::Failover(mode, bound) => failover(pod, *mode, bound.as_ref(), target, seen),
        Action::Forget(ids) => ids.iter().try_for_each(|id| forget(id, seen)),
        Action::OpenGate(start, _) => open_gate(pod, *start, seen),
    }
}

/// While a replica was told to take over, nobody else of its shard is, nobody leaves it, its primary does not start again, and what it is
/// about stays known.
fn disturbs_election(pod: &PodObservation, action: &Action, seen: &NodeObservation) -> bool {
    let electing =
        |other: &&PodObservation| other.under_way.iter().any(|action| matches!(action, Action::Failover(..)));
    let mut contested = seen.pods.iter().filter(electing).filter_map(|other| answers(other)?.primary.as_ref());
    let own = answers(pod).and_then(|facts| facts.primary.as_ref());
    match action {
        Action::Failover(..) | Action::Replicate(_) => contested.any(|primary| own == Some(primary)),
        Action::Forget(ids) => contested.any(|primary| ids.contains(primary)),
        Action::AddSlots(slots) => contested.any(|primary| attributed(primary, seen).overlaps(slots)),
        Action::OpenGate(..) => {
            let last = boot(pod).and_then(|boot| boot.last_node_id.as_ref());
            contested.any(|primary| last == Some(primary)) && !last.is_some_and(|id| is_replaced(id, seen))
        }
        // Who meets others votes the sooner; an epoch is only given to a node that knows nobody.
        Action::Probe | Action::ReadView | Action::Meet(_) | Action::SetConfigEpoch(_) => false,
    }
}

fn ensure(holds: bool, rule: &'static str) -> Verdict {
    if holds { Ok(()) } else { Err(rule) }
}

fn answers(pod: &PodObservation) -> Option<&NodeFacts> {
    match &pod.valkey {
        Valkey::Answers(facts) if pod.connected => Some(facts),
        _ => None,
    }
}

fn answering(seen: &NodeObservation) -> impl Iterator<Item = (&PodObservation, &NodeFacts)> {
    seen.pods.iter().filter_map(|pod| answers(pod).map(|facts| (pod, facts)))
}

fn views(seen: &NodeObservation) -> impl Iterator<Item = &NodeView> {
    // A view that is older than the node's latest word says nothing.
    let current = |view: &NodeView, facts: &NodeFacts| {
        view.summary == facts.summary && view.myself().is_some_and(|node| node.node_id == facts.node_id)
    };
    answering(seen).filter_map(move |(pod, facts)| pod.view.as_ref().filter(|view| current(view, facts)))
}

fn boot(pod: &PodObservation) -> Option<&Boot> {
    match &pod.valkey {
        Valkey::Waiting(boot) if pod.connected => Some(boot),
        _ => None,
    }
}

/// Slots that any view gives to this node.
fn attributed(id: &NodeId, seen: &NodeObservation) -> SlotSet {
    let lines = views(seen).filter_map(|view| view.get(id));
    lines.fold(SlotSet::default(), |slots, node| slots.union(&node.slots))
}

/// Slots that nodes which answer say are their own.
fn claimed(seen: &NodeObservation) -> SlotSet {
    let own = views(seen).filter_map(NodeView::myself);
    let own = own.fold(SlotSet::default(), |slots, node| slots.union(&node.slots));
    let unread = answering(seen).filter(|(pod, facts)| pod.view.is_none() && facts.summary.slots_mine > 0);
    unread.fold(own, |slots, (_, facts)| slots.union(&attributed(&facts.node_id, seen)))
}

fn is_recorded(id: &NodeId, seen: &NodeObservation) -> bool {
    seen.recorded.iter().flat_map(|shard| &shard.nodes).any(|node| node.node_id == *id)
}

/// Whether this pod had this node when it was last recorded.
fn recorded_in(pod: &PodObservation, id: &NodeId, seen: &NodeObservation) -> bool {
    let mut nodes = seen.recorded.iter().flat_map(|shard| &shard.nodes);
    nodes.any(|node| node.node_id == *id && node.pod == pod.name)
}

/// Whether this pod had this node by the host name that others know it by.
fn named_after(pod: &PodObservation, id: &NodeId, seen: &NodeObservation) -> bool {
    let names = views(seen).filter_map(|view| view.get(id)?.hostname.as_deref()?.split_once('.'));
    names.map(|(label, _)| label).any(|label| label == pod.name.as_str())
}

fn meet(pod: &PodObservation, peer: &Peer, seen: &NodeObservation) -> Verdict {
    let speaker = answers(pod).ok_or("it does not answer")?;
    let mut found = answering(seen).filter(|(_, facts)| facts.node_id == peer.node_id);
    let (other, facts) = found.next().ok_or("the other's own sidecar has not told this node id")?;
    ensure(found.next().is_none(), "two pods say they are the other")?;
    ensure(other.name == peer.pod && other.ip.as_deref() == Some(&peer.ip), "the other is not at this address")?;
    ensure(acquainted(pod, speaker, other, facts, seen), "the two belong to different clusters")
}

/// One of them is new and empty, or both are on record or know one that is, or they know each other or a third, or a cluster of
/// our pods is forming.
fn acquainted(
    one: &PodObservation,
    left: &NodeFacts,
    two: &PodObservation,
    right: &NodeFacts,
    seen: &NodeObservation,
) -> bool {
    let unrecorded = seen.recorded.is_empty();
    let new = |facts: &NodeFacts| (facts.keys == 0 || unrecorded) && facts.summary.known_nodes <= 1;
    let known = |pod: &PodObservation, facts: &NodeFacts| {
        let others = pod.view.iter().flat_map(|view| view.nodes.iter().filter(|node| !node.handshake));
        others.map(|node| node.node_id.clone()).chain([facts.node_id.clone()]).collect::<BTreeSet<_>>()
    };
    let on_record = |pod: &PodObservation, facts: &NodeFacts| known(pod, facts).iter().any(|id| is_recorded(id, seen));
    let both_recorded = on_record(one, left) && on_record(two, right);
    let forming = unrecorded && [left, right].iter().all(|facts| only_ours(facts, seen)) && no_slot_has_two(seen);
    new(left) || new(right) || both_recorded || forming || !known(one, left).is_disjoint(&known(two, right))
}

/// Whom this node knows by its present view, they are nodes of pods that answer, or were nodes of such pods by their host names.
fn only_ours(facts: &NodeFacts, seen: &NodeObservation) -> bool {
    let is_ours = |node: &ViewedNode| answering(seen).any(|(_, other)| other.node_id == node.node_id);
    let mut own = views(seen).filter(|view| view.myself().is_some_and(|node| node.node_id == facts.node_id));
    own.next().is_some_and(|view| view.others().all(|node| is_ours(node) || was_ours(node, view, seen)))
}

fn was_ours(node: &ViewedNode, view: &NodeView, seen: &NodeObservation) -> bool {
    let name = |node: &ViewedNode| {
        node.hostname.as_deref()?.split_once('.').map(|(pod, domain)| (pod.to_owned(), domain.to_owned()))
    };
    let own = view.myself().and_then(name);
    let same_domain = |(pod, domain): (String, String)| own.filter(|own| own.1 == domain).map(|_| pod);
    name(node).and_then(same_domain).is_some_and(|pod| answering(seen).any(|(other, _)| other.name.as_str() == pod))
}

/// No two nodes say that the same slot is their own.
fn no_slot_has_two(seen: &NodeObservation) -> bool {
    let own: u32 = views(seen).filter_map(NodeView::myself).map(|node| node.slots.count()).sum();
    own == claimed(seen).count()
}

fn add_slots(pod: &PodObservation, slots: &SlotSet, target: &Target, seen: &NodeObservation) -> Verdict {
    let facts = answers(pod).ok_or("it does not answer")?;
    ensure(facts.role == Role::Primary, "it is a replica")?;
    ensure(everybody_answers(target, seen), "not every node is heard: the slots may have an owner with data")?;
    let own = pod.view.as_ref().and_then(NodeView::myself).map(|node| node.slots.clone()).unwrap_or_default();
    ensure(!claimed(seen).difference(&own).overlaps(slots), "another node says they are its own")?;
    let current = |id: &NodeId| *id != facts.node_id && answering(seen).any(|(_, other)| other.node_id == *id);
    let mut rivals = views(seen).flat_map(|view| &view.nodes).filter(|node| node.slots.overlaps(slots));
    ensure(!rivals.any(|node| current(&node.node_id)), "a node that answers owns them in another's view")?;
    let copies = answering(seen).any(|(_, other)| has_copy(other, slots, seen));
    ensure(!copies, "a replica holds data of these slots")
}

/// A replica with keys of a node that others say owns such slots.
fn has_copy(facts: &NodeFacts, slots: &SlotSet, seen: &NodeObservation) -> bool {
    let primary = facts.primary.as_ref().filter(|_| facts.role == Role::Replica && facts.keys > 0);
    let gone = |id: &NodeId| !answering(seen).any(|(_, other)| other.node_id == *id);
    primary.is_some_and(|id| gone(id) && attributed(id, seen).overlaps(slots))
}

/// Every pod there is and every pod on record, but one that ran another node already and is gone: without a volume nothing of it is left.
fn everybody_answers(target: &Target, seen: &NodeObservation) -> bool {
    let heard: BTreeSet<_> = answering(seen).map(|(pod, _)| &pod.name).collect();
    let is_there = |name: &PodName| seen.pods.iter().any(|pod| pod.name == *name);
    let ended = |node: &ShardNode| !target.persistent && node.state == NodeState::Lost && !is_there(&node.pod);
    let mut recorded = seen.recorded.iter().flat_map(|shard| &shard.nodes);
    heard.len() == seen.pods.len() && recorded.all(|node| heard.contains(&node.pod) || ended(node))
}

fn replicate(pod: &PodObservation, id: &NodeId, seen: &NodeObservation) -> Verdict {
    let facts = answers(pod).ok_or("it does not answer")?;
    let owns = facts.summary.slots_mine > 0 || !attributed(&facts.node_id, seen).is_empty();
    ensure(!owns, "it owns slots")?;
    let orphan = facts.primary.as_ref().is_none_or(|primary| primary == id || attributed(primary, seen).is_empty());
    let replaceable = facts.keys == 0 || facts.role == Role::Replica && (orphan || is_spare(facts, seen));
    ensure(replaceable, "it holds data that may be the only copy")?;
    let mut primaries = answering(seen).filter(|(_, other)| other.node_id == *id);
    let primary =
        primaries.next().map(|(_, other)| other).ok_or("the primary is no node of this cluster that answers")?;
    ensure(primaries.next().is_none(), "two pods say they are the primary")?;
    ensure(primary.role == Role::Primary && primary.summary.slots_mine > 0, "the other is no primary with slots")
}

/// Its primary answers with the data, and another replica follows it.
fn is_spare(facts: &NodeFacts, seen: &NodeObservation) -> bool {
    let Some(primary) = &facts.primary else { return false };
    let holds = |other: &NodeFacts| other.node_id == *primary && other.summary.slots_mine > 0;
    let follows = |other: &NodeFacts| {
        other.node_id != facts.node_id && other.primary.as_ref() == Some(primary) && other.primary_link_up
    };
    answering(seen).any(|(_, other)| holds(other)) && answering(seen).any(|(_, other)| follows(other))
}

fn failover(
    pod: &PodObservation,
    mode: FailoverMode,
    bound: Option<&Position>,
    target: &Target,
    seen: &NodeObservation,
) -> Verdict {
    ensure(mode != FailoverMode::Takeover, "taking over without a vote is a human's decision")?;
    let facts = answers(pod).ok_or("it does not answer")?;
    let primary = facts.primary.as_ref().filter(|_| facts.role == Role::Replica).ok_or("it is no replica")?;
    if mode == FailoverMode::Coordinated {
        return Ok(());
    }
    ensure(!answering(seen).any(|(_, other)| other.node_id == *primary), "its primary answers")?;
    ensure(is_dead(primary, seen), "nobody who knows says that its primary is dead")?;
    let with_data = |boot: &Boot| boot.has_data && boot.last_node_id.as_ref() == Some(primary);
    let waits = seen.pods.iter().filter_map(boot).any(with_data);
    ensure(!(waits && facts.following == Following::Never), "it was restarted, and its primary waits with its data")?;
    let older = is_kept(primary, target, seen) && end(primary, seen).is_some_and(|end| lags(facts, end, target));
    ensure(!older, "it stopped following before its primary did, which may come back with more")?;
    if let Some(last) = last_seen(primary, target, seen) {
        ensure(bound == Some(last), "it is not told how far its primary was seen")?;
        ensure(!stopped_before(facts, last), "its primary was seen to have more, and may come back with it")?;
    }
    let better =
        answering(seen).any(|(other, rival)| rival.primary.as_ref() == Some(primary) && is_better(other, rival, facts));
    ensure(!better, "another replica has more of the data")
}

/// Its volume is there whatever becomes of the pod, or the pod is there whose emptyDir has its data.
fn is_kept(id: &NodeId, target: &Target, seen: &NodeObservation) -> bool {
    let mut recorded = seen.recorded.iter().flat_map(|shard| &shard.nodes).filter(|node| node.node_id == *id);
    let place = recorded.next();
    let was_here = |pod: &PodObservation| match &pod.valkey {
        Valkey::Down { node_id: Some(last), .. } if pod.connected => last == id,
        Valkey::Waiting(boot) if pod.connected => boot.last_node_id.as_ref() == Some(id),
        _ => place.is_some_and(|node| node.pod == pod.name && node.pod_uid.as_ref().is_none_or(|uid| *uid == pod.uid)),
    };
    target.persistent || seen.pods.iter().any(was_here)
}

/// How far the sidecar beside it saw it come, unless it comes back with nothing or its sidecar says that others have more.
fn last_seen<'s>(id: &NodeId, target: &Target, seen: &'s NodeObservation) -> Option<&'s Position> {
    let was_it = |pod: &&PodObservation| match &pod.valkey {
        Valkey::Down { node_id: Some(last), .. } => last == id,
        Valkey::Down { node_id: None, .. } => recorded_in(pod, id, seen),
        Valkey::Waiting(boot) => boot.last_node_id.as_ref() == Some(id) && brings_data(boot),
        Valkey::Answers(_) | Valkey::Unknown => false,
    };
    let pod = seen.pods.iter().filter(|pod| pod.connected).find(was_it)?;
    pod.last_position.as_ref().filter(|_| is_kept(id, target, seen))
}

/// It would load what others may not have.
fn brings_data(boot: &Boot) -> bool {
    boot.has_data && boot.better_copy.is_none()
}

/// Nothing more can come to it, and it was not that far in this history.
fn stopped_before(facts: &NodeFacts, last: &Position) -> bool {
    let ended = matches!(facts.following, Following::Until(_) | Following::Never);
    ended && facts.replication_id.as_deref() == Some(&last.replication_id) && facts.replication_offset < last.offset
}

/// When a primary that may come back with its data was last known to run; unknown is None inside. Not of one that waits to start with
/// nothing or with less than others have, or whose pod runs another node.
fn end(id: &NodeId, seen: &NodeObservation) -> Option<Option<Timestamp>> {
    let pod = seen.pods.iter().find(|pod| match &pod.valkey {
        Valkey::Down { node_id: Some(last), .. } if pod.connected => last == id,
        Valkey::Waiting(boot) if pod.connected => boot.last_node_id.as_ref() == Some(id),
        _ => recorded_in(pod, id, seen),
    });
    match pod.map(|pod| (pod, &pod.valkey)) {
        Some((pod, Valkey::Waiting(boot))) if pod.connected => brings_data(boot).then_some(Some(boot.since)),
        Some((pod, Valkey::Answers(_))) if pod.connected => None,
        Some((pod, Valkey::Down { since, .. })) if pod.connected => Some(Some(*since)),
        Some((pod, _)) => Some(pod.last_answer),
        None => is_recorded(id, seen).then_some(None),
    }
}

/// It does not follow, and did not until about then. A primary that is cut off serves for another node timeout.
fn lags(facts: &NodeFacts, end: Option<Timestamp>, target: &Target) -> bool {
    let close = |lost: Timestamp| end.is_some_and(|end| end.duration_since(lost) < tolerance(target));
    match facts.following {
        Following::Never => true,
        Following::Until(lost) => !close(lost),
        Following::Now | Following::Unknown => false,
    }
}

fn tolerance(target: &Target) -> SignedDuration {
    let limit = target.node_timeout + Duration::from_secs(2);
    SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX)
}

/// It can take over now, has the same history, and more of it.
fn is_better(pod: &PodObservation, rival: &NodeFacts, chosen: &NodeFacts) -> bool {
    let refused = pod.answer.as_ref().is_some_and(|answer| {
        matches!(answer.action, Action::Failover(..)) && !matches!(answer.outcome, Outcome::Done)
    });
    let able = rival.role == Role::Replica && !rival.loading && !pod.is_busy() && !pod.terminating && !refused;
    let comparable = rival.replication_id.is_some() && rival.replication_id == chosen.replication_id;
    able && comparable && rival.replication_offset > chosen.replication_offset
}

/// By the sidecar beside it, by the pod that now runs another node, or by most primaries' word.
fn is_dead(id: &NodeId, seen: &NodeObservation) -> bool {
    let recorded = |pod: &PodObservation| recorded_in(pod, id, seen);
    let attested = seen.pods.iter().any(|pod| match &pod.valkey {
        _ if !pod.connected => false,
        Valkey::Down { node_id, .. } => node_id.as_ref() == Some(id) || node_id.is_none() && recorded(pod),
        Valkey::Waiting(boot) => boot.last_node_id.as_ref() == Some(id),
        Valkey::Answers(_) => recorded(pod) || named_after(pod, id, seen),
        Valkey::Unknown => false,
    });
    let has_a_vote = |view: &&NodeView| view.myself().is_some_and(is_owner);
    let accuses = |view: &&NodeView| view.get(id).is_some_and(|node| node.failing);
    attested || views(seen).filter(has_a_vote).filter(accuses).count() > owners(seen) / 2
}

fn is_owner(node: &ViewedNode) -> bool {
    node.role == Role::Primary && !node.slots.is_empty()
}

/// How many owners of slots there are by the record, or by whoever knows of more: those that are not heard count too.
fn owners(seen: &NodeObservation) -> usize {
    let known = views(seen).map(|view| view.nodes.iter().filter(|node| is_owner(node)).count()).max();
    let recorded = seen.recorded.iter().filter(|shard| !shard.slots.is_empty()).count();
    known.unwrap_or_default().max(recorded)
}

fn forget(id: &NodeId, seen: &NodeObservation) -> Verdict {
    ensure(!answering(seen).any(|(_, facts)| facts.node_id == *id), "it is a node of a pod that answers")?;
    let waits = seen.pods.iter().filter_map(boot).any(|boot| boot.last_node_id.as_ref() == Some(id));
    ensure(!waits, "it waits to start")?;
    ensure(attributed(id, seen).is_empty(), "it owns slots")?;
    ensure(!answering(seen).any(|(_, facts)| facts.primary.as_ref() == Some(id)), "it has replicas")?;
    ensure(!views(seen).filter_map(|view| view.get(id)).any(ViewedNode::is_heard), "it answers somewhere")?;
    let mut recorded = seen.recorded.iter().flat_map(|shard| &shard.nodes).filter(|node| node.node_id == *id);
    let heard = recorded.all(|node| answering(seen).any(|(pod, _)| pod.name == node.pod));
    ensure(heard, "its pod is not heard: it may come back")
}

/// Others say that all slots of its shard are their own.
fn is_replaced(id: &NodeId, seen: &NodeObservation) -> bool {
    let shard = seen.recorded.iter().find(|shard| shard.nodes.iter().any(|node| node.node_id == *id));
    shard.is_some_and(|shard| shard.slots.difference(&claimed(seen)).is_empty())
}

fn open_gate(pod: &PodObservation, start: Start, seen: &NodeObservation) -> Verdict {
    let boot = boot(pod).ok_or("it does not wait at the gate")?;
    ensure(start == Start::AsIs || !boot.has_data, "it has data, which starting as a new node would set aside")?;
    if !boot.owned_slots || boot.has_data || boot.last_role == Some(Role::Replica) {
        return Ok(());
    }
    let id = boot.last_node_id.as_ref();
    let replaced = id.is_some_and(|id| is_replaced(id, seen));
    // Whoever still follows it has not heard yet of its successor, who has the data.
    let copies = answering(seen).any(|(_, facts)| facts.role == Role::Replica && facts.primary.as_ref() == id);
    ensure(replaced || !copies, "it lost its data and a replica has a copy")?;
    let silent = seen.pods.iter().any(|pod| !pod.connected || matches!(pod.valkey, Valkey::Unknown));
    ensure(replaced || !silent, "it lost its data and a node that is not heard may have a copy")
}
