//! Slots that nobody claims: given back to the node that lost them, or to a new one when every copy is gone for certain. Pure.

use super::action::PodCommand;
use super::cluster_model::{ClusterModel, Member, Membership};
use super::departed;
use super::form::grant;
use super::limits;
use super::proposal::Proposal;
use super::record::{OrchestrationKind, ShardNode, Stage};
use api::conditions::Reason;
use topology::{NodeId, Role, SlotSet};

pub(crate) fn propose(model: &ClusterModel) -> Option<Proposal> {
    let silent = model.members.iter().any(|member| member.facts().is_none());
    if !model.all_answer() || !model.unheard().is_empty() || silent {
        return None;
    }
    let commands = returned(model);
    if commands.is_empty() {
        lost(model)
    } else {
        Some(Proposal::new(OrchestrationKind::Heal, Stage::AssignSlots, commands))
    }
}

/// Slots that somebody dropped (CLUSTER RESET or DELSLOTS by hand) go back to the node that had them.
pub(crate) fn returned(model: &ClusterModel) -> Vec<PodCommand> {
    let open = model.covered().complement();
    let free = model.map.unassigned();
    let due = |member: &Member| {
        let id = member.id()?;
        let attributed = model.map.attributed(id).intersection(&open);
        let attributed =
            if attributed.is_empty() { attributed } else { attributed.difference(&on_their_way(model, id)) };
        let recorded = recorded_slots(model, id).intersection(&free);
        let slots = if nothing_followed(model, member) { attributed.union(&recorded) } else { recorded };
        let able = member.belongs() && member.is(Role::Primary);
        (able && !slots.is_empty()).then(|| grant(model, member, slots, 0))
    };
    model.members.iter().filter_map(due).flatten().collect()
}

/// Slots that some view gives to another node that answers: they are on their way from one to the other, and nobody dropped them.
fn on_their_way(model: &ClusterModel, id: &NodeId) -> SlotSet {
    let others = model.members.iter().filter_map(Member::id).filter(|other| *other != id);
    others.fold(SlotSet::default(), |all, other| all.union(&model.map.attributed(other)))
}

fn recorded_slots(model: &ClusterModel, id: &NodeId) -> SlotSet {
    let shard = model.recorded.iter().find(|shard| shard.primary().is_some_and(|primary| primary.node_id == *id));
    shard.map(|shard| shard.slots.clone()).unwrap_or_default()
}

/// It has no keys and none of its replicas has: an empty shard may have its slots back.
fn nothing_followed(model: &ClusterModel, member: &Member) -> bool {
    let Some(facts) = member.facts() else { return false };
    let replicas = model.replicas_of(&facts.node_id);
    facts.keys == 0 && replicas.iter().all(|replica| replica.facts().is_some_and(|facts| facts.keys == 0))
}

/// A shard whose nodes are all replaced by new ones. Without volumes its data is gone and an empty shard takes its place;
/// with volumes it might be restored, and a human is asked.
fn lost(model: &ClusterModel) -> Option<Proposal> {
    let covered = model.covered();
    let gone = |id: &NodeId| {
        let slots = model.map.attributed(id).difference(covered);
        let dead = model.by_id(id).is_none() && departed::successor(model, id).is_some();
        let copies = !model.replicas_of(id).is_empty() || departed::answers_somewhere(model, id);
        (!slots.is_empty() && dead && !copies).then_some(slots)
    };
    let lost = without_overlaps(model.map.ids().filter_map(gone));
    let unclaimed = unclaimed(model);
    let slots = lost.first().or(unclaimed.first())?;
    let forming =
        model.running.is_some_and(|running| running.kind == OrchestrationKind::Form) || model.recorded.is_empty();
    if model.target.persistent && !forming {
        return Some(Proposal::blocked(
            OrchestrationKind::Heal,
            Stage::AssignSlots,
            vec![(Reason::ShardLost, lost_text(slots))],
        ));
    }
    let step = Stage::AssignSlots;
    let patient = model.running.filter(|running| running.kind == OrchestrationKind::Heal && running.step == step);
    if patient.is_none() || model.step_age(OrchestrationKind::Heal).is_some_and(|age| age < limits::LOST_FOR) {
        let waits = vec![format!("a copy of slots {slots} to come back, before an empty shard takes their place")];
        return Some(Proposal::waiting(OrchestrationKind::Heal, step, waits));
    }
    // A dead owner's claim is beaten by a new epoch, which only a node that knows nobody can be given; others take what is free.
    // Pods that go take them only if nobody else can: with an owner for every slot they can hand them on, and leave.
    let mut members: Vec<&Member> = model.members.iter().collect();
    members.sort_by_key(|member| !member.wanted);
    let newcomers = members.iter().copied().filter(|member| member.membership == Membership::Fresh);
    let newcomers: Vec<&Member> = newcomers.collect();
    let idle = members.iter().copied().filter(|member| is_idle(model, member));
    let free: Vec<&Member> = newcomers.iter().copied().skip(lost.len()).chain(idle).collect();
    let grants = newcomers.into_iter().zip(lost).chain(free.into_iter().zip(unclaimed)).enumerate();
    let commands = grants.flat_map(|(index, (member, slots))| grant(model, member, slots, index)).collect();
    Some(Proposal::new(OrchestrationKind::Heal, step, commands))
}

/// Two dead nodes may have had the same slots, one after the other.
fn without_overlaps(sets: impl Iterator<Item = SlotSet>) -> Vec<SlotSet> {
    let mut taken = SlotSet::default();
    let mut rest = |slots: SlotSet| {
        let rest = slots.difference(&taken);
        taken = taken.union(&slots);
        rest
    };
    sets.map(&mut rest).filter(|slots| !slots.is_empty()).collect()
}

/// Slots on record that no view gives to anybody, as when the dead owner was forgotten by hand, and of which nobody has a copy.
fn unclaimed(model: &ClusterModel) -> Vec<SlotSet> {
    let free = model.map.unassigned().difference(model.covered());
    let gone = |node: &ShardNode| match model.by_id(&node.node_id) {
        Some(member) => is_idle(model, &member),
        None => {
            let id = &node.node_id;
            departed::successor(model, id).is_some() && !departed::answers_somewhere(model, id)
        }
    };
    let lost = model.recorded.iter().filter(|shard| shard.nodes.iter().all(gone));
    lost.map(|shard| shard.slots.intersection(&free)).filter(|slots| !slots.is_empty()).collect()
}

/// A node of ours that has neither slots nor keys and follows nobody.
fn is_idle(model: &ClusterModel, member: &Member) -> bool {
    let empty = member.facts().is_some_and(|facts| facts.keys == 0 && facts.role == Role::Primary);
    empty && member.membership == Membership::Ours && model.slots(member).is_empty()
}

fn lost_text(slots: &SlotSet) -> String {
    format!(
        "every node that had slots {slots} came back with an empty volume: restore the volume of one of them; to accept the loss, \
         run CLUSTER ADDSLOTSRANGE for them on a node without slots"
    )
}
