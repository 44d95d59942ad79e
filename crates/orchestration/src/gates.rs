//! Nodes at the boot gate that may start at once: they owned nothing, or others own it now. Pure.
//! A primary whose slots nobody has taken over is the failover's business.

use crate::action::{Action, PodCommand, Start};
use crate::observation::Boot;
use crate::picture::{Member, Picture};
use crate::proposal::command;
use topology::Role;

pub(crate) fn harmless(picture: &Picture) -> Vec<PodCommand> {
    let open = |member: &Member| {
        let why = reason(picture, member.boot()?)?;
        Some(open(member, why))
    };
    picture.members.iter().filter_map(open).collect()
}

pub(crate) fn open(member: &Member, why: &str) -> PodCommand {
    command(member, Action::OpenGate(Start::AsIs, why.to_owned()))
}

fn reason(picture: &Picture, boot: &Boot) -> Option<&'static str> {
    if !was_owner(boot) {
        return Some("it owned no slots");
    }
    replaced(picture, boot).then_some("another node owns its slots now")
}

pub(crate) fn was_owner(boot: &Boot) -> bool {
    boot.owned_slots && boot.last_role != Some(Role::Replica)
}

/// Somebody says himself that all its slots are his.
pub(crate) fn replaced(picture: &Picture, boot: &Boot) -> bool {
    let Some(id) = &boot.last_node_id else { return false };
    let recorded = picture.recorded.iter().filter(|shard| shard.primary().is_some_and(|node| node.node_id == *id));
    let slots = recorded.fold(picture.map.attributed(id), |slots, shard| slots.union(&shard.slots));
    let known = !slots.is_empty() || picture.recorded_shard(id).is_some();
    let all = slots.union(&picture.recorded_shard(id).map(|shard| shard.slots.clone()).unwrap_or_default());
    known && all.difference(picture.covered()).is_empty()
}
