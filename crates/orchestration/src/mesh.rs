//! Introductions: who must meet whom so that every node knows every other at its present address. Pure.
//! Primaries come first: replicas that meet a cluster whose primaries do not see each other would start elections.

use crate::action::{Action, Peer, PodCommand};
use crate::limits;
use crate::picture::{Member, Picture};
use crate::proposal::command;
use crate::record::{Kind, NodeWord, Step};
use std::collections::BTreeMap;
use topology::Role;

/// The introductions due now, and which step that is. None when everybody knows everybody.
pub(crate) fn introductions(picture: &Picture, group: &[Member]) -> Option<(Step, Vec<PodCommand>)> {
    let all = meets(picture, group);
    if all.is_empty() {
        return None;
    }
    let primaries: Vec<Member> = group.iter().filter(|member| !picture.slots(member).is_empty()).copied().collect();
    let followers = group.iter().any(|member| member.is(Role::Replica));
    if followers && !hurry(picture) && !(see_each_other(&primaries) && all_primaries_are_here(picture)) {
        return Some((Step::MeetPrimaries, meets(picture, &primaries)));
    }
    Some((Step::Meet, all))
}

/// Primaries were waited for long enough.
fn hurry(picture: &Picture) -> bool {
    let limit = picture.wanted.node_timeout * 3;
    picture.step_age(Kind::Heal).or(picture.step_age(Kind::Form)).is_some_and(|age| age >= limit)
        && picture.running.is_some_and(|running| running.step == Step::MeetPrimaries || running.step == Step::Meet)
}

fn see_each_other(primaries: &[Member]) -> bool {
    pairs(primaries).all(|(one, two)| sees(one, two) && sees(two, one))
}

/// No node that owned slots when last recorded is missing without a successor.
fn all_primaries_are_here(picture: &Picture) -> bool {
    let mut owners = picture.recorded.iter().filter_map(|shard| shard.primary().map(|primary| (primary, &shard.slots)));
    owners.all(|(primary, slots)| {
        let taken = slots.difference(picture.covered()).is_empty();
        taken || picture.by_id(&primary.node_id).is_some() || primary.state == NodeWord::Lost
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
fn meets(picture: &Picture, group: &[Member]) -> Vec<PodCommand> {
    let mut lists: BTreeMap<usize, Vec<Peer>> = BTreeMap::new();
    let hubs = if picture.large { limits::HUBS } else { group.len() };
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
