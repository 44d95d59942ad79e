//! Heal: a cluster that was formed becomes whole again. Each look does the first thing that is due. Pure.

use super::cluster_model::{ClusterModel, Member, Membership};
use super::join;
use super::limits::PATIENCE;
use super::primaries::primaries;
use super::proposal::Proposal;
use super::record::{OrchestrationKind, Stage};
use super::{departed, findings, form, gates, mesh, repair, scale};
use api::conditions::Reason;

pub(crate) fn propose(model: &ClusterModel) -> Option<Proposal> {
    if form::applies(model) {
        return None;
    }
    emptied(model)
        .or_else(|| gates::opened(model, OrchestrationKind::Heal))
        .or_else(|| connect(model))
        .or_else(|| repair::propose(model))
        .or_else(|| forget(model))
        .or_else(|| verify(model))
}

/// Volumes that are all empty at once were not lost one by one: a wrong mount or storage class looks the same, and an empty
/// cluster would hide it.
fn emptied(model: &ClusterModel) -> Option<Proposal> {
    let text = "no node of this cluster is left: every pod came back without its volume's data. Give the pods their volumes back; to \
                give the data up, delete the ValkeyCluster and create it again";
    let blocked = vec![(Reason::ShardLost, text.to_owned())];
    model.emptied.then(|| Proposal::blocked(OrchestrationKind::Heal, Stage::AwaitPods, blocked))
}

/// Nodes of ours meet again, newcomers join a shard that lacks a replica.
fn connect(model: &ClusterModel) -> Option<Proposal> {
    let pairings = join::pairings(model);
    let new_primaries = primaries(model);
    let joins = |member: &Member| {
        let follows = pairings.iter().any(|pair| pair.replica.name() == member.name());
        follows || new_primaries.iter().any(|primary| primary.name() == member.name())
    };
    let group = model.belonging().into_iter();
    let group: Vec<Member> = group.filter(|member| member.membership != Membership::Fresh || joins(member)).collect();
    let introductions = mesh::introductions(model, &group);
    if introductions.is_none() && pairings.is_empty() {
        return None;
    }
    let (step, mut commands) = introductions.unwrap_or((Stage::Replicate, Vec::new()));
    commands.extend(join::commands(&pairings, group.len()));
    let waits = vec!["the nodes to know each other at their present addresses".to_owned()];
    Some(Proposal::new(scale::kind(model), step, commands).and_waits(waits))
}

fn forget(model: &ClusterModel) -> Option<Proposal> {
    let commands = departed::forget(model);
    (!commands.is_empty()).then(|| Proposal::new(scale::kind(model), Stage::Forget, commands))
}

/// A heal that was begun ends when the nodes agree, or when only time can help.
fn verify(model: &ClusterModel) -> Option<Proposal> {
    let healing = model.running.filter(|running| running.kind == OrchestrationKind::Heal)?;
    let verified_for = model.step_age(OrchestrationKind::Heal).filter(|_| healing.step == Stage::Verify);
    let doubts = findings::doubts(model);
    let give_up = verified_for.is_some_and(|age| age > PATIENCE * 3);
    (!doubts.is_empty() && !give_up).then(|| Proposal::waiting(OrchestrationKind::Heal, Stage::Verify, doubts))
}
