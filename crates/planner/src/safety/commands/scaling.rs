//! When slots may move from one node to another, and when a node may leave the cluster. Pure.

use super::{Verdict, answering, answers, attributed, ensure, goes_away, views};
use crate::nodes::{Action, FailoverMode, NodeFacts, NodeObservation, PodCommand, PodObservation, Target};
use topology::{NodeId, NodeView, Role, SlotSet};

/// Source and target of each move under way.
fn moves(seen: &NodeObservation) -> impl Iterator<Item = (Option<&NodeId>, &NodeId)> {
    seen.pods.iter().flat_map(|pod| {
        let source = answers(pod).map(|facts| &facts.node_id);
        pod.under_way.iter().filter_map(move |action| match action {
            Action::MigrateSlots(_, target, _) => Some((source, target)),
            _ => None,
        })
    })
}

fn has_part_in_a_move(id: &NodeId, seen: &NodeObservation) -> bool {
    moves(seen).any(|(source, target)| source == Some(id) || target == id)
}

/// While slots move between two shards nobody leaves them, and none of their primaries is asked to hand over.
pub(super) fn disturbs_move(pod: &PodObservation, action: &Action, seen: &NodeObservation) -> bool {
    let Some(facts) = answers(pod) else { return false };
    let moving = |id: &NodeId| has_part_in_a_move(id, seen);
    let own = facts.primary.as_ref().is_some_and(moving);
    match action {
        Action::Failover(FailoverMode::Coordinated, _) => own,
        Action::Replicate(_) | Action::Leave => own || moving(&facts.node_id),
        Action::MigrateSlots(_, target, _) => moving(&facts.node_id) || moving(target),
        _ => false,
    }
}

/// The command that has a primary take part in two moves of one plan.
pub(super) fn second_move<'c>(commands: &'c [PodCommand], seen: &NodeObservation) -> Option<&'c PodCommand> {
    let mut engaged: Vec<NodeId> = Vec::new();
    commands.iter().find(|command| {
        let Action::MigrateSlots(_, target, _) = &command.action else { return false };
        let source = seen.pods.iter().find(|pod| pod.uid == command.pod_uid).and_then(answers);
        let ends = [source.map(|facts| facts.node_id.clone()), Some(target.clone())];
        let again = ends.iter().flatten().any(|id| engaged.contains(id));
        engaged.extend(ends.into_iter().flatten());
        again
    })
}

pub(super) fn migrate(
    pod: &PodObservation,
    (slots, to): (&SlotSet, &NodeId),
    commands: &[PodCommand],
    target: &Target,
    seen: &NodeObservation,
) -> Verdict {
    let facts = answers(pod).ok_or("it does not answer")?;
    ensure(facts.role == Role::Primary && facts.node_id != *to, "it is no primary, or the target itself")?;
    let own = pod.view.as_ref().and_then(NodeView::myself).map(|node| node.slots.clone()).unwrap_or_default();
    ensure(!slots.is_empty() && slots.difference(&own).is_empty(), "it does not own these slots")?;
    let mut found = answering(seen).filter(|(_, other)| other.node_id == *to);
    let (receiver, other) = found.next().ok_or("the target does not answer")?;
    ensure(found.next().is_none(), "two pods say they are the target")?;
    ensure(other.role == Role::Primary, "the target is a replica")?;
    ensure(!receiver.terminating && !pod.terminating, "the pod of one of them is about to end")?;
    let known = pod.view.as_ref().and_then(|view| view.get(to));
    ensure(known.is_some_and(|node| !node.failing && !node.handshake), "it does not know the target, or as failed")?;
    let rivals = views(seen).filter_map(NodeView::myself).filter(|node| node.node_id != facts.node_id);
    ensure(!rivals.into_iter().any(|node| node.slots.overlaps(slots)), "another node says they are its own")?;
    let enough = copies(&facts.node_id, seen).count().min(target.replicas_per_master);
    let staying = copies(to, seen).filter(|pod| !goes_away(pod, to, commands)).count();
    ensure(staying >= enough, "the target has fewer copies of its data than it")?;
    let electing =
        seen.pods.iter().filter(|pod| pod.under_way.iter().any(|action| matches!(action, Action::Failover(..))));
    let mut contested = electing.filter_map(|pod| answers(pod)?.primary.as_ref());
    ensure(!contested.any(|id| *id == facts.node_id || id == to), "an election of one of the shards is under way")
}

/// Replicas that follow it now.
fn copies<'s>(id: &'s NodeId, seen: &'s NodeObservation) -> impl Iterator<Item = &'s PodObservation> {
    answering(seen).filter(|(_, facts)| follows(facts, id)).map(|(pod, _)| pod)
}

fn follows(facts: &NodeFacts, id: &NodeId) -> bool {
    facts.role == Role::Replica && facts.primary.as_ref() == Some(id) && facts.primary_link_up && !facts.loading
}

/// Only a node without which nothing is missing: as many pods that stay have its data as are asked for.
pub(super) fn leave(pod: &PodObservation, commands: &[PodCommand], target: &Target, seen: &NodeObservation) -> Verdict {
    let facts = answers(pod).ok_or("it does not answer")?;
    let stays = |pod: &PodObservation| pod.name.ordinal().is_some_and(|ordinal| ordinal < target.pods());
    let owns = facts.summary.slots_mine > 0 || !attributed(&facts.node_id, seen).is_empty();
    ensure(!owns, "it owns slots")?;
    let followed = answering(seen).any(|(_, other)| other.primary.as_ref() == Some(&facts.node_id));
    ensure(!followed, "it has replicas")?;
    if facts.role == Role::Primary {
        return ensure(facts.keys == 0, "it holds keys that nobody else may have");
    }
    let id = facts.primary.as_ref().ok_or("nobody knows whom it follows")?;
    let primary = answering(seen).find(|(_, other)| other.node_id == *id && other.role == Role::Primary);
    let (home, _) = primary.ok_or("its primary does not answer")?;
    if attributed(id, seen).is_empty() {
        return ensure(facts.keys == 0, "it holds keys of a primary without slots");
    }
    let others = answering(seen).filter(|(other, _)| other.uid != pod.uid);
    let staying =
        others.filter(|(pod, other)| stays(pod) && follows(other, id) && !goes_away(pod, id, commands)).count();
    // A primary whose pod goes too is succeeded by one of them.
    let needed = target.replicas_per_master + usize::from(!stays(home));
    ensure(staying >= needed, "its shard would have too few copies of its data")
}
