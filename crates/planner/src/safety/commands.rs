//! The rules for commands to nodes. Pure.

mod scaling;
mod takeover;

use super::{Violation, volumes};
use crate::nodes::{
    Action, Boot, NodeFacts, NodeObservation, NodeState, Peer, PodCommand, PodObservation, ShardNode, Start, Target,
    Valkey,
};
use crate::observation::Observation;
use crate::pods::asked_for;
use std::collections::BTreeSet;
use topology::{NodeId, NodeView, PodName, Role, SlotSet, ViewedNode};

/// The first command that breaks a rule.
pub fn check_commands(commands: &[PodCommand], target: &Target, seen: &NodeObservation) -> Result<(), Violation> {
    for command in commands {
        check(command, commands, target, seen).map_err(|rule| violation(command, rule))?;
    }
    let second = scaling::second_move(commands, seen);
    second.map_or(Ok(()), |command| Err(violation(command, "one of the two has a part in another move")))?;
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
pub fn check_size(commands: &[PodCommand], size: u32, seen: Option<&NodeObservation>) -> Result<(), Violation> {
    let left_out = |pod: &PodName| pod.ordinal().is_none_or(|ordinal| ordinal as u64 >= u64::from(size));
    let is_at = |pod: &PodObservation, id: &NodeId| answers(pod).is_some_and(|facts| facts.node_id == *id);
    let ends = |command: &PodCommand| match &command.action {
        Action::AddSlots(_) | Action::Replicate(_) => left_out(&command.pod),
        Action::MigrateSlots(_, to, _) => {
            seen.into_iter().flat_map(|seen| &seen.pods).any(|pod| is_at(pod, to) && left_out(&pod.name))
        }
        _ => false,
    };
    let broken = commands.iter().find(|command| ends(command));
    broken.map_or(Ok(()), |command| Err(violation(command, ENDING)))
}

/// Before there is a record nobody is given slots that the node on a volume may have, whose pod is yet to come.
pub fn check_volumes(commands: &[PodCommand], observation: &Observation) -> Result<(), Violation> {
    let size = observation.stateful_set().map(asked_for);
    let unread = volumes::unread(observation, |ordinal| size.is_none_or(|size| ordinal < size as usize));
    let given = commands.iter().find(|command| matches!(command.action, Action::AddSlots(_)));
    match given.filter(|_| unread.is_some()) {
        Some(command) => Err(violation(command, "not every volume was read: one may have an owner of the slots")),
        None => Ok(()),
    }
}

fn check(command: &PodCommand, all: &[PodCommand], target: &Target, seen: &NodeObservation) -> Verdict {
    let pod = seen.pods.iter().find(|pod| pod.uid == command.pod_uid).ok_or("no such pod was seen")?;
    ensure(pod.name == command.pod, "the pod has another name")?;
    ensure(pod.connected, "its sidecar is not on the line")?;
    ensure(!pod.is_busy(), "it is carrying out another command")?;
    ensure(!disturbs_election(pod, &command.action, seen), "an election of its shard is under way")?;
    ensure(!scaling::disturbs_move(pod, &command.action, seen), "slots of its shard are being moved")?;
    match &command.action {
        Action::Probe | Action::ReadView => Ok(()),
        Action::Meet(peers) => peers.iter().try_for_each(|peer| meet(pod, peer, seen)),
        Action::AddSlots(slots) => ensure(!pod.terminating, ENDING).and_then(|()| add_slots(pod, slots, target, seen)),
        Action::SetConfigEpoch(_) => {
            ensure(answers(pod).is_some_and(|facts| facts.role == Role::Primary), "it is no primary")
        }
        Action::Replicate(id) => ensure(!pod.terminating, ENDING).and_then(|()| replicate(pod, id, all, target, seen)),
        Action::Failover(mode, bound) => takeover::failover(pod, *mode, bound.as_ref(), target, seen),
        Action::Forget(ids) => ids.iter().try_for_each(|id| forget(id, seen)),
        Action::OpenGate(start, _) => open_gate(pod, *start, target, seen),
        Action::MigrateSlots(slots, to, _) => scaling::migrate(pod, (slots, to), all, target, seen),
        Action::Leave => scaling::leave(pod, all, target, seen),
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
        Action::Failover(..) | Action::Replicate(_) | Action::Leave => contested.any(|primary| own == Some(primary)),
        Action::Forget(ids) => contested.any(|primary| ids.contains(primary)),
        Action::AddSlots(slots) => contested.any(|primary| attributed(primary, seen).overlaps(slots)),
        Action::OpenGate(..) => {
            let last = boot(pod).and_then(|boot| boot.last_node_id.as_ref());
            contested.any(|primary| last == Some(primary)) && !last.is_some_and(|id| is_replaced(id, seen))
        }
        // Who meets others votes the sooner; an epoch is only given to a node that knows nobody; moves are looked at by themselves.
        Action::Probe | Action::ReadView | Action::Meet(_) | Action::SetConfigEpoch(_) | Action::MigrateSlots(..) => {
            false
        }
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

/// Slots that nodes say are their own, in views as new as their latest word.
fn own_word(seen: &NodeObservation) -> SlotSet {
    let own = views(seen).filter_map(NodeView::myself);
    own.fold(SlotSet::default(), |slots, node| slots.union(&node.slots))
}

/// These, and what others say of nodes that have some and were not read.
fn claimed(seen: &NodeObservation) -> SlotSet {
    let own = own_word(seen);
    let read = |id: &NodeId| views(seen).filter_map(NodeView::myself).any(|node| node.node_id == *id);
    let unread = answering(seen).filter(|(_, facts)| facts.summary.slots_mine > 0 && !read(&facts.node_id));
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

/// Every pod there is and every pod on record, but one that is gone: without a volume nothing of it is left. Who is heard lives on where
/// its pod was deleted by force.
fn everybody_answers(target: &Target, seen: &NodeObservation) -> bool {
    let heard: BTreeSet<_> = answering(seen).map(|(pod, _)| &pod.name).collect();
    let is_there = |name: &PodName| seen.pods.iter().any(|pod| pod.name == *name);
    let ended = |node: &ShardNode| !target.persistent && !is_there(&node.pod) && !is_heard(&node.node_id, seen);
    let mut recorded = seen.recorded.iter().flat_map(|shard| &shard.nodes);
    heard.len() == seen.pods.len() && recorded.all(|node| heard.contains(&node.pod) || ended(node))
}

/// Some node hears from it.
fn is_heard(id: &NodeId, seen: &NodeObservation) -> bool {
    views(seen).filter_map(|view| view.get(id)).any(ViewedNode::is_heard)
}

fn replicate(
    pod: &PodObservation,
    id: &NodeId,
    commands: &[PodCommand],
    target: &Target,
    seen: &NodeObservation,
) -> Verdict {
    let facts = answers(pod).ok_or("it does not answer")?;
    let owns = facts.summary.slots_mine > 0 || !attributed(&facts.node_id, seen).is_empty();
    ensure(!owns, "it owns slots")?;
    let is_nobodys = |primary: &NodeId| attributed(primary, seen).is_empty() && !may_hold_keys(primary, seen);
    let orphan = facts.primary.as_ref().is_none_or(|primary| primary == id || is_nobodys(primary));
    let replaceable =
        facts.keys == 0 || facts.role == Role::Replica && (orphan || is_spare(facts, commands, target, seen));
    ensure(replaceable, "it holds data that may be the only copy")?;
    let expects_keys = facts.role == Role::Primary && may_hold_keys(&facts.node_id, seen);
    ensure(!expects_keys, "a slot is half moved to it")?;
    let mut primaries = answering(seen).filter(|(_, other)| other.node_id == *id);
    let primary =
        primaries.next().map(|(_, other)| other).ok_or("the primary is no node of this cluster that answers")?;
    ensure(primaries.next().is_none(), "two pods say they are the primary")?;
    let worth_it = primary.summary.slots_mine > 0 || facts.keys == 0 || is_spare(facts, commands, target, seen);
    ensure(primary.role == Role::Primary && worth_it, "the other is no primary with slots")
}

/// A primary without slots has keys of one that is half moved: it says so, or the owner does that gives it away.
fn may_hold_keys(id: &NodeId, seen: &NodeObservation) -> bool {
    let has_keys = |facts: &NodeFacts| facts.node_id == *id && facts.role == Role::Primary && facts.keys > 0;
    let mut open = views(seen).filter_map(NodeView::myself).flat_map(|node| &node.moves);
    answering(seen).any(|(_, facts)| has_keys(facts)) || open.any(|open| !open.importing && open.other == *id)
}

/// Its primary answers with the data, and without this node as many copies are left as are asked for, on pods that stay.
fn is_spare(facts: &NodeFacts, commands: &[PodCommand], target: &Target, seen: &NodeObservation) -> bool {
    let Some(primary) = &facts.primary else { return false };
    let stays = |pod: &PodObservation| pod.name.ordinal().is_some_and(|ordinal| ordinal < target.pods());
    let holds = |other: &NodeFacts| other.node_id == *primary && other.summary.slots_mine > 0;
    let follows = |other: &NodeFacts| {
        other.node_id != facts.node_id && other.primary.as_ref() == Some(primary) && other.primary_link_up
    };
    let homes: Vec<_> = answering(seen).filter(|(_, other)| holds(other)).collect();
    let goes = !homes.iter().any(|(pod, _)| stays(pod));
    let copies = answering(seen).filter(|(pod, other)| stays(pod) && follows(other));
    let copies = copies.filter(|(pod, _)| !goes_away(pod, primary, commands)).count();
    !homes.is_empty() && copies >= target.replicas_per_master + usize::from(goes)
}

/// Its pod ends, or it is told to leave or to follow somebody else: what it has of this primary is soon gone.
fn goes_away(pod: &PodObservation, primary: &NodeId, commands: &[PodCommand]) -> bool {
    let told = commands.iter().filter(|command| command.pod_uid == pod.uid).map(|command| &command.action);
    let mut actions = told.chain(&pod.under_way);
    pod.terminating
        || actions.any(|action| match action {
            Action::Leave => true,
            Action::Replicate(id) => id != primary,
            _ => false,
        })
}

fn forget(id: &NodeId, seen: &NodeObservation) -> Verdict {
    ensure(!answering(seen).any(|(_, facts)| facts.node_id == *id), "it is a node of a pod that answers")?;
    let waits = seen.pods.iter().filter_map(boot).any(|boot| boot.last_node_id.as_ref() == Some(id));
    ensure(!waits, "it waits to start")?;
    ensure(attributed(id, seen).is_empty(), "it owns slots")?;
    ensure(!answering(seen).any(|(_, facts)| facts.primary.as_ref() == Some(id)), "it has replicas")?;
    ensure(!is_heard(id, seen), "it answers somewhere")?;
    let mut recorded = seen.recorded.iter().flat_map(|shard| &shard.nodes).filter(|node| node.node_id == *id);
    let is_heard = |name: &PodName| answering(seen).any(|(pod, _)| pod.name == *name);
    // Its pod ran another node already, when it was written down as lost.
    let gone = recorded.all(|node| node.state == NodeState::Lost || is_heard(&node.pod));
    ensure(gone, "its pod is not heard: it may come back")
}

/// Others say themselves that all slots of its shard are their own; of a node that is not on record, all slots that anybody takes for its own.
fn is_replaced(id: &NodeId, seen: &NodeObservation) -> bool {
    let shard = seen.recorded.iter().find(|shard| shard.nodes.iter().any(|node| node.node_id == *id));
    let by_views = || Some(attributed(id, seen)).filter(|slots| !slots.is_empty());
    let slots = shard.map(|shard| shard.slots.clone()).or_else(by_views);
    slots.is_some_and(|slots| slots.difference(&own_word(seen)).is_empty())
}

/// Another node of its shard does not answer, nor does one in its place, and its data may be there. What role it had may have changed
/// since the record; without a record the node's own word counts.
fn is_copy_missed(id: &NodeId, boot: &Boot, target: &Target, seen: &NodeObservation) -> bool {
    let is_its = |node: &&ShardNode| node.node_id == *id;
    let Some(shard) = seen.recorded.iter().find(|shard| shard.nodes.iter().any(|node| is_its(&node))) else {
        return boot.known_replicas.iter().any(|id| !answering(seen).any(|(_, facts)| facts.node_id == *id));
    };
    shard.nodes.iter().filter(|node| !is_its(node)).any(|node| is_missed(node, target, seen))
}

/// It does not answer, and its data may be there: on a volume, or in the pod in which it ran.
fn is_missed(node: &ShardNode, target: &Target, seen: &NodeObservation) -> bool {
    let pod = seen.pods.iter().find(|pod| pod.name == node.pod);
    let same = |pod: &PodObservation| node.pod_uid.as_ref().is_none_or(|uid| *uid == pod.uid);
    pod.and_then(answers).is_none() && (target.persistent || pod.is_some_and(same))
}

/// Nobody knows which node it has, and it may have data.
fn is_unknown(pod: &PodObservation, seen: &NodeObservation) -> bool {
    let recorded = seen.recorded.iter().flat_map(|shard| &shard.nodes).any(|node| node.pod == pod.name);
    match &pod.valkey {
        Valkey::Unknown => true,
        Valkey::Down { node_id, .. } => node_id.is_none() && !recorded,
        Valkey::Waiting(boot) => boot.last_node_id.is_none() && boot.has_data && !recorded,
        Valkey::Answers(_) => false,
    }
}

fn open_gate(pod: &PodObservation, start: Start, target: &Target, seen: &NodeObservation) -> Verdict {
    let boot = boot(pod).ok_or("it does not wait at the gate")?;
    ensure(start == Start::AsIs || !boot.has_data, "it has data, which starting as a new node would set aside")?;
    if !boot.owned_slots || boot.last_role == Some(Role::Replica) {
        return Ok(());
    }
    let id = boot.last_node_id.as_ref();
    let replaced = id.is_some_and(|id| is_replaced(id, seen));
    if boot.has_data {
        let missed = !boot.journal && id.is_some_and(|id| is_copy_missed(id, boot, target, seen));
        return ensure(replaced || !missed, "a replica that is not heard may have what its snapshot lacks");
    }
    // Whoever still follows it has not heard yet of its successor, who has the data.
    let copies = answering(seen).any(|(_, facts)| facts.role == Role::Replica && facts.primary.as_ref() == id);
    ensure(replaced || !copies, "it lost its data and a replica has a copy")?;
    let missed = id.is_some_and(|id| is_recorded(id, seen) && is_copy_missed(id, boot, target, seen));
    ensure(replaced || !missed, "it lost its data and a node of its shard that may come back may have a copy")?;
    let silent = seen.pods.iter().any(|pod| !pod.connected || is_unknown(pod, seen));
    ensure(replaced || !silent, "it lost its data and a node that is not heard may have a copy")
}
