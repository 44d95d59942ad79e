//! Introductions: who must meet whom so that every node knows every other at its present address. Pure.
//! Primaries come first: replicas that meet a cluster whose primaries do not see each other would start elections.

use super::action::{Action, Peer, PodCommand};
use super::cluster_model::{ClusterModel, Member};
use super::limits::{self, age};
use super::proposal::command;
use super::record::{NodeState, OrchestrationKind, Stage};
use std::collections::BTreeMap;
use topology::Role;

/// The introductions due now, and which step that is. None when everybody knows everybody.
pub(crate) fn introductions(model: &ClusterModel, group: &[Member]) -> Option<(Stage, Vec<PodCommand>)> {
    let all = meets(model, group);
    if all.is_empty() {
        return None;
    }
    let primaries: Vec<Member> = group.iter().filter(|member| !model.slots(member).is_empty()).copied().collect();
    let followers = group.iter().any(|member| member.is(Role::Replica));
    if followers && !hurry(model) && !(see_each_other(model, &primaries) && all_primaries_are_here(model)) {
        return Some((Stage::MeetPrimaries, meets(model, &primaries)));
    }
    Some((Stage::Meet, all))
}

/// Primaries were waited for long enough, or one of them is dead and those who vote may not know its replicas.
fn hurry(model: &ClusterModel) -> bool {
    let limit = model.target.node_timeout * 3;
    let electing = model.running.filter(|running| running.kind == OrchestrationKind::Failover);
    if electing.is_some_and(|running| age(model.now, running.started_at) >= limit) {
        return true;
    }
    let kinds = [OrchestrationKind::Heal, OrchestrationKind::Form, OrchestrationKind::Scale];
    kinds.iter().find_map(|kind| model.step_age(*kind)).is_some_and(|age| age >= limit)
        && model.running.is_some_and(|running| running.step == Stage::MeetPrimaries || running.step == Stage::Meet)
}

fn see_each_other(model: &ClusterModel, primaries: &[Member]) -> bool {
    let sees = |one, two| sees(one, two) || model.large && misses_nobody(one);
    pairs(primaries).all(|(one, two)| sees(one, two) && sees(two, one))
}

/// In a large cluster few are read, and of the others only their summaries tell.
fn misses_nobody(one: &Member) -> bool {
    let summary = one.facts().filter(|_| one.view().is_none()).map(|facts| &facts.summary);
    summary.is_some_and(|summary| summary.state_ok && summary.failing_nodes == 0)
}

/// No node that owned slots when last recorded is missing without a successor.
fn all_primaries_are_here(model: &ClusterModel) -> bool {
    let mut owners = model.recorded.iter().filter_map(|shard| shard.primary().map(|primary| (primary, &shard.slots)));
    owners.all(|(primary, slots)| {
        let taken = slots.difference(model.covered()).is_empty();
        taken || model.by_id(&primary.node_id).is_some() || primary.state == NodeState::Lost
    })
}

/// The one knows the other where he is now, and not as failed.
fn sees(one: &Member, two: &Member) -> bool {
    let line = one.view().zip(two.id()).and_then(|(view, id)| view.get(id));
    line.is_some_and(|node| !node.failing && Some(&node.ip) == two.pod.ip.as_ref())
}

/// The one does not know the other, or knows him elsewhere. False when that cannot be told.
pub(crate) fn lacks(one: &Member, two: &Member) -> bool {
    if one.alone() {
        return true;
    }
    let (Some(view), Some(id)) = (one.view(), two.id()) else { return false };
    view.get(id).is_none_or(|node| Some(&node.ip) != two.pod.ip.as_ref())
}

/// Whether the one knows the other well enough to follow him.
pub(crate) fn knows(one: &Member, two: &Member, everybody: usize) -> bool {
    match (one.view(), one.facts(), two.id()) {
        (Some(view), _, Some(id)) => view.get(id).is_some(),
        (None, Some(facts), Some(_)) => usize::try_from(facts.summary.known_nodes).unwrap_or_default() >= everybody,
        _ => false,
    }
}

/// One command for every node that has somebody to meet. In a large cluster a few hubs introduce everybody.
fn meets(model: &ClusterModel, group: &[Member]) -> Vec<PodCommand> {
    let mut lists: BTreeMap<usize, Vec<Peer>> = BTreeMap::new();
    let hubs = if model.large { limits::HUBS } else { group.len() };
    for (first, one) in group.iter().enumerate().take(hubs) {
        for (second, two) in group.iter().enumerate().skip(first + 1) {
            let (speaker, peer) = match (lacks(one, two), lacks(two, one)) {
                (true, _) => (first, two),
                (false, true) => (second, one),
                (false, false) => continue,
            };
            lists.entry(speaker).or_default().extend(address(peer));
        }
    }
    let command = |(speaker, peers): (usize, Vec<Peer>)| Some(command(group.get(speaker)?, Action::Meet(peers)));
    lists.into_iter().filter(|(_, peers)| !peers.is_empty()).filter_map(command).collect()
}

fn address(member: &Member) -> Option<Peer> {
    let (ip, node_id) = (member.pod.ip.clone()?, member.id()?.clone());
    Some(Peer { pod: member.pod.name.clone(), node_id, ip })
}

fn pairs<'m, 'a>(members: &'m [Member<'a>]) -> impl Iterator<Item = (&'m Member<'a>, &'m Member<'a>)> {
    members.iter().enumerate().flat_map(|(index, one)| members.iter().skip(index + 1).map(move |two| (one, two)))
}
