//! Slots that an interrupted move left open between two nodes, with keys on both: what has to be finished before anything else moves,
//! and who may hold keys of them. Pure.

use super::cluster_model::{ClusterModel, Member, Membership};
use std::collections::BTreeMap;
use topology::{Move, NodeId, Role, SlotMove, SlotRange, SlotSet};

/// The owner of an open slot gives all of it to the node that it is open to.
pub(crate) fn unfinished(model: &ClusterModel) -> Vec<Move> {
    let owners = model.map.owners();
    let mut moves: BTreeMap<(NodeId, NodeId), SlotSet> = BTreeMap::new();
    for (slot, to) in open(model).filter(|(_, to)| is_primary(model, to)) {
        let owner = owners.iter().find(|(_, slots)| slots.contains(slot)).map(|(id, _)| id);
        let owner = owner.filter(|id| *id != to && is_primary(model, id));
        if let Some(owner) = owner {
            let slots = moves.entry((owner.clone(), to.clone())).or_default();
            *slots = slots.union(&one(slot));
        }
    }
    moves.into_iter().map(|((from, to), slots)| Move { from, to, slots }).collect()
}

/// A primary without slots that got keys of one, as far as it or another says.
pub(crate) fn has_half(model: &ClusterModel, member: &Member) -> bool {
    let Some(facts) = member.facts().filter(|facts| facts.role == Role::Primary && facts.keys > 0) else {
        return false;
    };
    model.slots(member).is_empty() && open(model).any(|(_, to)| *to == facts.node_id)
}

/// Its replicas may have the only copy of keys although it owns no slots.
pub(crate) fn may_hold_keys(model: &ClusterModel, id: &NodeId) -> bool {
    let has_keys = |member: Member| member.facts().is_some_and(|it| it.role == Role::Primary && it.keys > 0);
    model.by_id(id).is_some_and(has_keys) || open(model).any(|(_, to)| to == id)
}

/// Each open slot with the node that it is open to, by the word of either end.
fn open<'a>(model: &ClusterModel<'a>) -> impl Iterator<Item = (u16, &'a NodeId)> {
    let ours = model.members.iter().filter(|member| member.membership == Membership::Ours);
    let primaries: Vec<Member<'a>> = ours.filter(|member| member.is(Role::Primary)).copied().collect();
    primaries.into_iter().flat_map(|member| {
        let own = member.view().and_then(|view| view.myself());
        own.into_iter().flat_map(|own| own.moves.iter().map(|open| (open.slot, target(&own.node_id, open))))
    })
}

fn target<'a>(speaker: &'a NodeId, open: &'a SlotMove) -> &'a NodeId {
    if open.importing { speaker } else { &open.other }
}

fn is_primary(model: &ClusterModel, id: &NodeId) -> bool {
    let ours = |member: Member| member.membership == Membership::Ours && member.is(Role::Primary);
    model.by_id(id).is_some_and(ours)
}

fn one(slot: u16) -> SlotSet {
    SlotSet::of([SlotRange::new(slot, slot)]).unwrap_or_default()
}
