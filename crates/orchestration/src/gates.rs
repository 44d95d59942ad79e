//! Nodes at the boot gate that may start at once: they owned nothing, or others own it now; and those that cannot start as what
//! they were. Pure.
//! A primary whose slots nobody has taken over is the failover's business.

use crate::action::{Action, PodCommand, Start};
use crate::decision::Reason;
use crate::observation::Boot;
use crate::picture::{Member, Picture};
use crate::proposal::command;
use topology::Role;

pub(crate) fn harmless(picture: &Picture) -> Vec<PodCommand> {
    let open = |member: &Member| {
        let boot = member.boot()?;
        match is_damaged(boot) {
            true => afresh(member, boot),
            false => Some(open(member, reason(picture, boot)?)),
        }
    };
    picture.members.iter().filter_map(open).collect()
}

/// Whoever waits at the gate had a past; one that cannot say which has a nodes.conf that Valkey does not start with.
fn is_damaged(boot: &Boot) -> bool {
    boot.last_node_id.is_none()
}

/// With data nobody decides but a human: others may have no copy of it, and a new node does not load it.
fn afresh(member: &Member, boot: &Boot) -> Option<PodCommand> {
    let why = "its nodes.conf is damaged, and there is no data beside it".to_owned();
    (!boot.has_data).then(|| command(member, Action::OpenGate(Start::Fresh, why)))
}

/// Nodes that stay at the gate until a human decides.
pub(crate) fn blocked(picture: &Picture) -> Vec<(Reason, String)> {
    let stays = |member: &&Member| member.boot().is_some_and(|boot| is_damaged(boot) && boot.has_data);
    let blocked = picture.members.iter().filter(stays).map(|member| (Reason::DamagedNode, damaged_text(member)));
    blocked.collect()
}

fn damaged_text(member: &Member) -> String {
    format!(
        "{} does not start: its nodes.conf is damaged, and there is data beside it of which this may be the only copy. If its shard is \
         served without it, give the pod an empty volume; otherwise put an intact nodes.conf back on its volume",
        member.name()
    )
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

#[cfg(test)]
#[path = "gates_tests.rs"]
mod tests;
