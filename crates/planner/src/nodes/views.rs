//! Which nodes are asked for their full view: all of a small cluster, some of a large one. Pure.

use super::action::{Action, PodCommand};
use super::cluster_model::{ClusterModel, Member};
use super::limits::{self, age};
use super::proposal::{command, due};
use std::collections::BTreeMap;
use std::time::Duration;

/// The pods whose views count. In a large cluster equal digests stand for equal views.
pub(crate) fn watchers<'a>(model: &ClusterModel<'a>) -> Vec<Member<'a>> {
    let speaking: Vec<Member> = model.members.iter().filter(|member| matters(member)).copied().collect();
    if !model.large {
        return speaking;
    }
    let (usual, differing) = split(speaking);
    let step = usual.len().div_ceil(limits::SOME_VIEWS).max(1);
    let some = usual.into_iter().step_by(step);
    some.chain(differing.into_iter().take(limits::DIFFERING_VIEWS)).collect()
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

/// Reads the views that are missing or older than this.
pub(crate) fn read_older_than(model: &ClusterModel, limit: Duration) -> Vec<PodCommand> {
    let old = |member: &Member| member.view().is_none_or(|view| age(model.now, view.read_at) >= limit);
    let ask = watchers(model).into_iter().filter(old);
    let ask = ask.filter(|member| due(member, &Action::ReadView, model.now));
    ask.map(|member| command(&member, Action::ReadView)).collect()
}

/// Some view that would be acted on is too old for that.
pub(crate) fn too_old(model: &ClusterModel) -> bool {
    watchers(model)
        .iter()
        .any(|member| member.view().is_none_or(|view| age(model.now, view.read_at) >= limits::VIEW_AGE))
}
