//! Which nodes are asked for their full view: all of a small cluster, some of a large one, most primaries of a large one while one
//! of them is not heard. Pure.

use super::action::{Action, PodCommand};
use super::cluster_model::{ClusterModel, Member};
use super::gates;
use super::limits::{self, age};
use super::node_failures;
use super::proposal::{command, due};
use super::record::Shard;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use topology::{NodeId, NodeView, PodName, Role, SlotSet};

/// The pods whose views count. In a large cluster equal digests stand for equal views.
pub(crate) fn watchers<'a>(model: &ClusterModel<'a>) -> Vec<Member<'a>> {
    let speaking: Vec<Member> = model.members.iter().filter(|member| matters(member)).copied().collect();
    if !model.large {
        return speaking;
    }
    let (usual, differing) = split(speaking);
    let step = usual.len().div_ceil(limits::SOME_VIEWS).max(1);
    // What was half moved to a node only its own view tells.
    let has_keys_only = |member: &&Member| {
        member.facts().is_some_and(|it| it.role == Role::Primary && it.keys > 0 && it.summary.slots_mine == 0)
    };
    let half = usual.iter().filter(has_keys_only).take(limits::DIFFERING_VIEWS).copied().collect::<Vec<_>>();
    let some = usual.into_iter().step_by(step).filter(|member| !has_keys_only(&member));
    half.into_iter().chain(some).chain(differing.into_iter().take(limits::DIFFERING_VIEWS)).collect()
}

/// In a large cluster, when a primary is not heard: others that call somebody failed, so many of them that they are most. What they say
/// of it decides, and of each of them only its own view tells whom it means.
fn witnesses<'a>(model: &ClusterModel<'a>) -> Vec<Member<'a>> {
    let primaries = model.recorded.iter().filter(|_| model.large).filter_map(Shard::primary).map(|node| &node.node_id);
    let unheard = |id: &&NodeId| model.by_id(id).is_none() && node_failures::certain(model, id).is_none();
    let unheard: Vec<&NodeId> = primaries.filter(unheard).collect();
    if unheard.is_empty() {
        return Vec::new();
    }
    let votes = |member: &&Member| member.facts().is_some_and(|facts| facts.summary.slots_mine > 0);
    let accuses = |member: &&Member| member.facts().is_some_and(|facts| facts.summary.failing_nodes > 0);
    let means_them = |view: &NodeView| unheard.iter().any(|id| view.get(id).is_some_and(|node| node.failing));
    let may_count = |member: &&Member| member.view().is_none_or(means_them);
    let accusers = model.members.iter().filter(votes).filter(accuses).filter(may_count);
    accusers.take(model.recorded.len() / 2 + 1).copied().collect()
}

/// In a large cluster, when a primary waits to start: those that have its slots now by others' word. Only their own counts.
fn successors<'a>(model: &ClusterModel<'a>) -> Vec<Member<'a>> {
    let waiting = model.members.iter().filter(|_| model.large).filter_map(Member::boot);
    let waiting = waiting.filter(|boot| gates::was_owner(boot)).filter_map(|boot| boot.last_node_id.as_ref());
    let slots = waiting.fold(SlotSet::default(), |all, id| all.union(&gates::slots_of(model, id)));
    let owners = model.members.iter().filter(|member| member.view().is_none() && model.slots(member).overlaps(&slots));
    owners.copied().collect()
}

/// A node that knows nobody and owns nothing has said all in its summary.
fn matters(member: &Member) -> bool {
    member.facts().is_some_and(|facts| facts.summary.known_nodes > 1 || facts.summary.slots_mine > 0)
}

/// Those that say what most say, and the others.
fn split(speaking: Vec<Member<'_>>) -> (Vec<Member<'_>>, Vec<Member<'_>>) {
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    for facts in speaking.iter().filter_map(Member::facts) {
        *counts.entry(&facts.summary.slots_digest).or_default() += 1;
    }
    let usual = counts.into_iter().max_by_key(|(_, count)| *count).map(|(digest, _)| digest.to_vec());
    let is_usual = |member: &Member| member.facts().map(|facts| &facts.summary.slots_digest) == usual.as_ref();
    speaking.into_iter().partition(is_usual)
}

/// Pods whose view is missing or older than their latest word.
pub(crate) fn missing<'a>(model: &ClusterModel<'a>) -> Vec<Member<'a>> {
    watchers(model).into_iter().filter(|member| member.view().is_none()).collect()
}

/// Reads the views that are missing or older than this. Those of witnesses are many: they are read once, and count for as long as
/// their summaries do not change.
pub(crate) fn read_older_than(model: &ClusterModel, limit: Duration) -> Vec<PodCommand> {
    let old = |member: &Member| member.view().is_none_or(|view| age(model.now, view.read_at) >= limit);
    let watchers = watchers(model);
    let watched: BTreeSet<&PodName> = watchers.iter().map(Member::name).collect();
    let unread = |member: &Member| member.view().is_none() && !watched.contains(member.name());
    let others = witnesses(model).into_iter().chain(successors(model)).filter(unread);
    let others: BTreeMap<&PodName, Member> = others.map(|member| (member.name(), member)).collect();
    let ask = watchers.iter().copied().filter(old).chain(others.into_values());
    let ask = ask.filter(|member| due(member, &Action::ReadView, model.now));
    ask.map(|member| command(&member, Action::ReadView)).collect()
}

/// Some view that would be acted on is too old for that.
pub(crate) fn too_old(model: &ClusterModel) -> bool {
    watchers(model)
        .iter()
        .any(|member| member.view().is_none_or(|view| age(model.now, view.read_at) >= limits::VIEW_AGE))
}
