//! Ids that nodes know and no pod has: former nodes of ours, which are forgotten once nothing of them is left, and strangers.
//! Pure.

use crate::action::{Action, PodCommand};
use crate::limits::age;
use crate::observation::Valkey;
use crate::picture::{Member, Picture, current_view};
use crate::proposal::command;
use crate::views;
use topology::{NodeId, NodeView, ViewedNode};

/// The id a pod's Valkey had when it was last heard, if it does not run now.
pub(crate) fn last_id<'a>(picture: &Picture<'a>, member: &Member<'a>) -> Option<&'a NodeId> {
    let on_record = || {
        let mut nodes = picture.recorded_nodes().filter(|node| node.pod == *member.name());
        nodes.next().map(|node| &node.node_id)
    };
    match &member.pod.valkey {
        Valkey::Answers(_) if member.facts().is_some() => None,
        Valkey::Waiting(boot) if member.pod.connected => boot.last_node_id.as_ref(),
        Valkey::Down { node_id: Some(id), .. } if member.pod.connected => Some(id),
        _ => on_record(),
    }
}

/// The pod that had this node and now runs another.
pub(crate) fn successor<'a>(picture: &Picture<'a>, id: &NodeId) -> Option<Member<'a>> {
    let by_record = picture.recorded_pod(id).and_then(|name| picture.by_name(name));
    let by_name = || {
        let mut names = picture.members.iter().filter_map(Member::view).filter_map(|view| pod_name(view, id));
        names.next().and_then(|name| picture.members.iter().find(|member| member.name().as_str() == name)).copied()
    };
    by_record.or_else(by_name).filter(|member| member.id().is_some_and(|now| now != id))
}

/// The first label of a node's host name, if the rest of the name is that of the speaker's own.
fn pod_name<'v>(view: &'v NodeView, id: &NodeId) -> Option<&'v str> {
    let name = |node: &'v ViewedNode| node.hostname.as_deref().and_then(|name| name.split_once('.'));
    let (_, domain) = view.myself().and_then(name)?;
    view.get(id).and_then(name).filter(|(_, other)| *other == domain).map(|(label, _)| label)
}

fn is_current(picture: &Picture, id: &NodeId) -> bool {
    picture.members.iter().any(|member| member.has_id(id) || last_id(picture, member) == Some(id))
}

/// Ids in some view that are no pod's and were never recorded.
pub(crate) fn unknown_ids(picture: &Picture) -> Vec<NodeId> {
    let unknown = |id: &&NodeId| !is_current(picture, id) && picture.recorded_pod(id).is_none();
    picture.map.ids().filter(unknown).cloned().collect()
}

/// Some node hears from it: it lives somewhere.
pub(crate) fn answers_somewhere(picture: &Picture, id: &NodeId) -> bool {
    let heard = |view: &NodeView| view.get(id).is_some_and(ViewedNode::is_heard);
    // Also by the word of one that is not known to be ours: better a ghost too many than a node too few.
    picture.members.iter().filter_map(|member| current_view(member.pod)).any(heard)
}

/// A node that owns slots is still heard although its pod runs another: views from before that are read again.
pub(crate) fn is_any_doubtful(picture: &Picture) -> bool {
    let outlives = |id: &NodeId| picture.by_id(id).is_none() && successor(picture, id).is_some();
    picture.map.owners().keys().any(|id| outlives(id) && answers_somewhere(picture, id))
}

/// Where a node still runs although its pod was replaced: it is heard in a view from so long after the other's start that those who
/// missed it would say so.
pub(crate) fn still_runs_at<'a>(picture: &Picture<'a>, id: &NodeId) -> Option<&'a str> {
    let started = successor(picture, id).filter(|_| !is_current(picture, id))?.facts()?.started_at?;
    let late = |view: &&NodeView| age(view.read_at, started) >= picture.wanted.node_timeout * 2;
    let mut views = picture.members.iter().filter_map(Member::view).filter(late);
    views.find_map(|view| view.get(id).filter(|node| node.is_heard()).map(|node| node.ip.as_str()))
}

/// Former nodes whose pods run others now, and that own, serve and feed nobody.
fn forgettable(picture: &Picture) -> Vec<NodeId> {
    let gone = |id: &&NodeId| {
        !is_current(picture, id)
            && successor(picture, id).is_some_and(|member| member.belongs())
            && picture.map.attributed(id).is_empty()
            && picture.replicas_of(id).is_empty()
            && !answers_somewhere(picture, id)
    };
    picture.map.ids().filter(gone).cloned().collect()
}

/// Told to everybody at once: what one node forgets, another would tell it again.
pub(crate) fn forget(picture: &Picture) -> Vec<PodCommand> {
    let ids = forgettable(picture);
    let known = |member: &Member| {
        let view = member.view()?;
        let known: Vec<NodeId> = ids.iter().filter(|id| view.get(id).is_some()).cloned().collect();
        (!known.is_empty()).then(|| command(member, Action::Forget(known)))
    };
    views::watchers(picture).iter().filter(|member| member.belongs()).filter_map(known).collect()
}
