//! Ids that nodes know and no pod has: former nodes of ours, which are forgotten once nothing of them is left, and strangers.
//! Pure.

use super::action::{Action, PodCommand};
use super::cluster_model::{ClusterModel, Member, current_view};
use super::limits::age;
use super::observation::Valkey;
use super::proposal::command;
use super::record::{NodeState, ShardNode};
use super::views;
use topology::{NodeId, NodeView, PodName, ViewedNode};

/// The id a pod's Valkey had when it was last heard, if it does not run now.
pub(crate) fn last_id<'a>(model: &ClusterModel<'a>, member: &Member<'a>) -> Option<&'a NodeId> {
    let on_record = || {
        let mut nodes = model.recorded_nodes().filter(|node| node.pod == *member.name());
        nodes.next().map(|node| &node.node_id)
    };
    match &member.pod.valkey {
        Valkey::Answers(_) if member.facts().is_some() => None,
        Valkey::Waiting(boot) if member.pod.connected => boot.last_node_id.as_ref(),
        Valkey::Down { node_id: Some(id), .. } if member.pod.connected => Some(id),
        _ => on_record(),
    }
}

/// It does not run, may have data, and nobody can say which node it was.
pub(crate) fn is_nameless<'a>(model: &ClusterModel<'a>, member: &Member<'a>) -> bool {
    let may_have_data = match &member.pod.valkey {
        Valkey::Down { .. } => true,
        Valkey::Waiting(boot) => boot.has_data,
        Valkey::Answers(_) | Valkey::Unknown => false,
    };
    let on_record = || model.recorded_nodes().any(|node| node.pod == *member.name());
    may_have_data && last_id(model, member).is_none() && !on_record()
}

/// The pod that had this node and now runs another.
pub(crate) fn successor<'a>(model: &ClusterModel<'a>, id: &NodeId) -> Option<Member<'a>> {
    let by_record = model.recorded_pod(id).and_then(|name| model.by_name(name));
    let by_name = || {
        let mut names = model.members.iter().filter_map(Member::view).filter_map(|view| pod_name(view, id));
        names.next().and_then(|name| model.members.iter().find(|member| member.name().as_str() == name)).copied()
    };
    by_record.or_else(by_name).filter(|member| member.id().is_some_and(|now| now != id))
}

/// Nodes on record beside this one that do not answer and may still have what it had: frozen, cut off, starting, or on the volume of a
/// pod that is away. Whatever role they have on record, which may be of before a hand-over.
pub(crate) fn awaited<'a>(model: &ClusterModel<'a>, id: &NodeId) -> Vec<&'a ShardNode> {
    let others = model.recorded_shard(id).into_iter().flat_map(|shard| &shard.nodes).filter(|node| node.node_id != *id);
    let answers = |node: &ShardNode| model.by_id(&node.node_id).is_some();
    let gone = |node: &ShardNode| successor(model, &node.node_id).is_some() || ended_with_pod(model, node);
    others.filter(|node| !answers(node) && !gone(node)).collect()
}

/// It had no volume, and the pod in which it ran is not there any more.
fn ended_with_pod(model: &ClusterModel, node: &ShardNode) -> bool {
    let same = |member: &Member| node.pod_uid.as_ref().is_none_or(|uid| *uid == member.pod.uid);
    !model.target.persistent && !model.by_name(&node.pod).is_some_and(|member| same(&member))
}

/// The first label of a node's host name, if the rest of the name is that of the speaker's own.
fn pod_name<'v>(view: &'v NodeView, id: &NodeId) -> Option<&'v str> {
    let name = |node: &'v ViewedNode| node.hostname.as_deref().and_then(|name| name.split_once('.'));
    let (_, domain) = view.myself().and_then(name)?;
    view.get(id).and_then(name).filter(|(_, other)| *other == domain).map(|(label, _)| label)
}

fn is_current(model: &ClusterModel, id: &NodeId) -> bool {
    model.members.iter().any(|member| member.has_id(id) || last_id(model, member) == Some(id))
}

/// Ids in some view that are no pod's and were never recorded.
pub(crate) fn unknown_ids(model: &ClusterModel) -> Vec<NodeId> {
    let unknown = |id: &&NodeId| !is_current(model, id) && model.recorded_pod(id).is_none();
    model.map.ids().filter(unknown).cloned().collect()
}

/// Some node hears from it: it lives somewhere.
pub(crate) fn answers_somewhere(model: &ClusterModel, id: &NodeId) -> bool {
    let heard = |view: &NodeView| view.get(id).is_some_and(ViewedNode::is_heard);
    // Also by the word of one that is not known to be ours: better a departed node too many than a node too few.
    model.members.iter().filter_map(|member| current_view(member.pod)).any(heard)
}

/// A node that owns slots is still heard although its pod runs another: views from before that are read again.
pub(crate) fn is_any_doubtful(model: &ClusterModel) -> bool {
    let outlives = |id: &NodeId| model.by_id(id).is_none() && successor(model, id).is_some();
    model.map.owners().keys().any(|id| outlives(id) && answers_somewhere(model, id))
}

/// Where a node still runs although its pod was replaced: it is heard in a view from so long after the other's start that those who
/// missed it would say so.
pub(crate) fn still_runs_at<'a>(model: &ClusterModel<'a>, id: &NodeId) -> Option<&'a str> {
    let successor = successor(model, id).filter(|member| !is_current(model, id) && !has_just_left(member))?;
    let started = successor.facts()?.started_at?;
    let late = |view: &&NodeView| age(view.read_at, started) >= model.target.node_timeout * 2;
    let mut views = model.members.iter().filter_map(Member::view).filter(late);
    views.find_map(|view| view.get(id).filter(|node| node.is_heard()).map(|node| node.ip.as_str()))
}

/// It was told to become a new node, and is still heard under its old name for a moment.
fn has_just_left(member: &Member) -> bool {
    member.pod.answer.as_ref().is_some_and(|answer| answer.action == Action::Leave)
}

/// Its pod was seen to run another node, and does not tell of this one: it is not expected again when that pod is away in its turn.
pub(crate) fn was_lost(model: &ClusterModel, id: &NodeId) -> bool {
    model.recorded_node(id).is_some_and(|node| node.state == NodeState::Lost)
}

/// Its pod, by its host name, is one of ours that is not wanted any more and is not there. One on record comes back, unless it is lost.
fn has_left(model: &ClusterModel, id: &NodeId) -> bool {
    if model.recorded_node(id).is_some() && !was_lost(model, id) {
        return false;
    }
    let mut names = model.members.iter().filter_map(Member::view).filter_map(|view| pod_name(view, id));
    let name = names.next().map(PodName::from);
    let beyond = |name: &PodName| name.ordinal().is_some_and(|ordinal| ordinal >= model.target.pods());
    name.is_some_and(|name| is_named_after(model, &name) && beyond(&name) && model.by_name(&name).is_none())
}

fn is_named_after(model: &ClusterModel, name: &PodName) -> bool {
    name.as_str().rsplit_once('-').is_some_and(|(cluster, _)| cluster == model.target.cluster)
}

/// Former nodes whose pods run others now or are gone for good, and that own, serve and feed nobody.
fn forgettable(model: &ClusterModel) -> Vec<NodeId> {
    let gone = |id: &&NodeId| {
        !is_current(model, id)
            && (successor(model, id).is_some_and(|member| member.belongs()) || has_left(model, id))
            && model.map.attributed(id).is_empty()
            && model.replicas_of(id).is_empty()
            && !answers_somewhere(model, id)
    };
    model.map.ids().filter(gone).cloned().collect()
}

/// Told to everybody at once: what one node forgets, another would tell it again.
pub(crate) fn forget(model: &ClusterModel) -> Vec<PodCommand> {
    let ids = forgettable(model);
    let known = |member: &Member| {
        let view = member.view()?;
        let known: Vec<NodeId> = ids.iter().filter(|id| view.get(id).is_some()).cloned().collect();
        (!known.is_empty()).then(|| command(member, Action::Forget(known)))
    };
    views::watchers(model).iter().filter(|member| member.belongs()).filter_map(known).collect()
}
