//! Nodes at the boot gate that may start at once: they owned nothing, or others own it now; and those that cannot start as what
//! they were. Pure.
//! A primary whose slots nobody has taken over is the failover's business.

use super::action::{Action, PodCommand, Start};
use super::cluster_model::{ClusterModel, Member};
use super::departed;
use super::observation::Boot;
use super::proposal::{Proposal, command};
use super::record::{OrchestrationKind, Stage};
use api::conditions::Reason;
use topology::{NodeId, Role, SlotSet};

pub(crate) fn opened(model: &ClusterModel, kind: OrchestrationKind) -> Option<Proposal> {
    let commands = harmless(model);
    (!commands.is_empty()).then(|| Proposal::new(kind, Stage::OpenGates, commands))
}

fn harmless(model: &ClusterModel) -> Vec<PodCommand> {
    let open = |member: &Member| {
        let boot = member.boot()?;
        match is_damaged(boot) {
            true => afresh(member, boot),
            false => Some(open(member, reason(model, boot).or_else(|| forgotten(model, boot))?)),
        }
    };
    model.members.iter().filter_map(open).collect()
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
pub(crate) fn blocked(model: &ClusterModel) -> Vec<(Reason, String)> {
    let stays = |member: &&Member| member.boot().is_some_and(|boot| is_damaged(boot) && boot.has_data);
    let blocked = model.members.iter().filter(stays).map(|member| (Reason::DamagedNode, damaged_text(member)));
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

fn reason(model: &ClusterModel, boot: &Boot) -> Option<&'static str> {
    if !was_owner(boot) {
        return Some("it owned no slots");
    }
    replaced(model, boot).then_some("another node owns its slots now")
}

/// Nobody speaks of its slots, so no failover comes for them, and no copy of its data is left to protect.
fn forgotten(model: &ClusterModel, boot: &Boot) -> Option<&'static str> {
    let spoken_of = boot.last_node_id.as_ref().is_some_and(|id| model.ownership().contains_key(id));
    let nothing_left = !boot.has_data && model.unheard().is_empty() && no_copy_is_known(model, boot);
    (!spoken_of && nothing_left).then_some("no copy of its data is left anywhere")
}

/// Nobody follows it, none of the replicas it knew is a node of any pod, running or waiting, and none on record may come back.
pub(crate) fn no_copy_is_known(model: &ClusterModel, boot: &Boot) -> bool {
    let lives = |id: &NodeId| {
        model.members.iter().any(|member| member.has_id(id) || departed::last_id(model, member) == Some(id))
    };
    let has_copies = |id: &NodeId| !model.replicas_of(id).is_empty() || !departed::awaited(model, id).is_empty();
    !boot.last_node_id.as_ref().is_some_and(has_copies) && !boot.known_replicas.iter().any(lives)
}

pub(crate) fn was_owner(boot: &Boot) -> bool {
    boot.owned_slots && boot.last_role != Some(Role::Replica)
}

/// Somebody says himself that all its slots are his. What others say of a node that was not read may be out of date.
pub(crate) fn replaced(model: &ClusterModel, boot: &Boot) -> bool {
    let Some(id) = &boot.last_node_id else { return false };
    let slots = slots_of(model, id);
    let known = !slots.is_empty() || model.recorded_shard(id).is_some();
    known && slots.difference(&model.map.covered()).is_empty()
}

/// What it owned by anybody's word, and its shard by the record.
pub(crate) fn slots_of(model: &ClusterModel, id: &NodeId) -> SlotSet {
    let shards = model.recorded.iter().filter(|shard| shard.nodes.iter().any(|node| node.node_id == *id));
    shards.fold(model.map.attributed(id), |slots, shard| slots.union(&shard.slots))
}

#[cfg(test)]
#[path = "gates_tests.rs"]
mod tests;
