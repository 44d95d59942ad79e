//! Slots that nobody claims: given back to the node that lost them, or to a new one when every copy is gone for certain. Pure.

use crate::action::PodCommand;
use crate::decision::Reason;
use crate::form::grant;
use crate::ghosts;
use crate::limits;
use crate::picture::{Member, Picture, Standing};
use crate::proposal::Proposal;
use crate::record::{Kind, Step};
use topology::{NodeId, Role, SlotSet};

pub(crate) fn propose(picture: &Picture) -> Option<Proposal> {
    if !picture.all_answer() || !picture.unheard().is_empty() {
        return None;
    }
    let commands = returned(picture);
    if commands.is_empty() { lost(picture) } else { Some(Proposal::new(Kind::Heal, Step::AssignSlots, commands)) }
}

/// Slots that somebody dropped (CLUSTER RESET or DELSLOTS by hand) go back to the node that had them.
pub(crate) fn returned(picture: &Picture) -> Vec<PodCommand> {
    let open = picture.covered().complement();
    let free = picture.map.unassigned();
    let due = |member: &Member| {
        let id = member.id()?;
        let attributed = picture.map.attributed(id).intersection(&open);
        let recorded = recorded_slots(picture, id).intersection(&free);
        let slots = if nothing_followed(picture, member) { attributed.union(&recorded) } else { recorded };
        let able = member.belongs() && member.is(Role::Primary);
        (able && !slots.is_empty()).then(|| grant(picture, member, slots, 0))
    };
    picture.members.iter().filter_map(due).flatten().collect()
}

fn recorded_slots(picture: &Picture, id: &NodeId) -> SlotSet {
    let shard = picture.recorded.iter().find(|shard| shard.primary().is_some_and(|primary| primary.node_id == *id));
    shard.map(|shard| shard.slots.clone()).unwrap_or_default()
}

/// It has no keys and none of its replicas has: an empty shard may have its slots back.
fn nothing_followed(picture: &Picture, member: &Member) -> bool {
    let Some(facts) = member.facts() else { return false };
    let replicas = picture.replicas_of(&facts.node_id);
    facts.keys == 0 && replicas.iter().all(|replica| replica.facts().is_some_and(|facts| facts.keys == 0))
}

/// A shard whose nodes are all replaced by new ones. Without volumes its data is gone and an empty shard takes its place;
/// with volumes it might be restored, and a human is asked.
fn lost(picture: &Picture) -> Option<Proposal> {
    let covered = picture.covered();
    let gone = |id: &NodeId| {
        let slots = picture.map.attributed(id).difference(covered);
        let dead = picture.by_id(id).is_none() && ghosts::successor(picture, id).is_some();
        let copies = !picture.replicas_of(id).is_empty() || ghosts::answers_somewhere(picture, id);
        (!slots.is_empty() && dead && !copies).then_some(slots)
    };
    let lost: Vec<SlotSet> = picture.map.ids().filter_map(gone).collect();
    let slots = lost.first()?;
    let forming = picture.running.is_some_and(|running| running.kind == Kind::Form) || picture.recorded.is_empty();
    if picture.wanted.persistent && !forming {
        return Some(Proposal::blocked(Kind::Heal, Step::AssignSlots, vec![(Reason::ShardLost, lost_text(slots))]));
    }
    let step = Step::AssignSlots;
    let patient = picture.running.filter(|running| running.kind == Kind::Heal && running.step == step);
    if patient.is_none() || picture.step_age(Kind::Heal).is_some_and(|age| age < limits::LOST_FOR) {
        let waits = vec![format!("a copy of slots {slots} to come back, before an empty shard takes their place")];
        return Some(Proposal::waiting(Kind::Heal, step, waits));
    }
    let newcomers = picture.members.iter().filter(|member| member.standing == Standing::Fresh && member.wanted);
    let grants = newcomers.zip(lost).enumerate();
    let commands = grants.flat_map(|(index, (member, slots))| grant(picture, member, slots, index)).collect();
    Some(Proposal::new(Kind::Heal, step, commands))
}

fn lost_text(slots: &SlotSet) -> String {
    format!(
        "every node that had slots {slots} came back with an empty volume: restore the volume of one of them; to accept the loss, \
         run CLUSTER ADDSLOTSRANGE for them on a node without slots"
    )
}
