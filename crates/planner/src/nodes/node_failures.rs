//! Which nodes do not run any more, and how sure that is: one judgement for what is done about it and for what is said. Pure.

use super::cluster_model::{ClusterModel, Member};
use super::departed;
use super::observation::{Boot, Valkey};
use jiff::Timestamp;
use topology::{NodeId, NodeView, Position, Role, ViewedNode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// Seen from beside it, or its pod runs another node.
    Certain,
    /// Most primaries agree that it has failed.
    Outvoted,
    /// Nobody who is heard hears it, and they may be too few to agree on it. Nobody takes over on the strength of that.
    Suspected,
}

/// A node that does not run any more.
pub(crate) struct NodeFailure<'a> {
    pub id: NodeId,
    pub pod: Option<Member<'a>>,
    pub boot: Option<&'a Boot>,
    /// When it stopped, or was last known to answer. None when nobody who could tell is left.
    pub since: Option<Timestamp>,
    pub certainty: Certainty,
}

impl<'a> NodeFailure<'a> {
    /// How far the sidecar beside it saw it come.
    pub fn last_position(&self) -> Option<&'a Position> {
        let beside = self.pod.filter(|member| member.pod.connected)?;
        beside.pod.last_position.as_ref()
    }
}

pub(crate) fn failure<'a>(model: &ClusterModel<'a>, id: &NodeId, owners: usize) -> Option<NodeFailure<'a>> {
    certain(model, id).or_else(|| uncertain(model, id, owners))
}

/// What needs nobody's opinion.
pub(crate) fn certain<'a>(model: &ClusterModel<'a>, id: &NodeId) -> Option<NodeFailure<'a>> {
    if answers(model, id) {
        return None;
    }
    let beside = beside(model, id);
    let attested = beside.filter(|member| member.pod.connected).and_then(|member| attested(&member));
    let replaced = || departed::successor(model, id).is_some() && !departed::answers_somewhere(model, id);
    let since = attested.or_else(|| replaced().then_some(model.now))?;
    let boot = beside.and_then(|member| member.boot());
    Some(NodeFailure { id: id.clone(), pod: beside, boot, since: Some(since), certainty: Certainty::Certain })
}

fn uncertain<'a>(model: &ClusterModel<'a>, id: &NodeId, owners: usize) -> Option<NodeFailure<'a>> {
    let certainty = match () {
        () if answers(model, id) => return None,
        () if model.map.failing_votes(id) > owners / 2 => Certainty::Outvoted,
        () if is_suspected(model, id) => Certainty::Suspected,
        () => return None,
    };
    let beside = beside(model, id);
    let since = beside.and_then(|member| member.pod.last_answer);
    let boot = beside.and_then(|member| member.boot());
    Some(NodeFailure { id: id.clone(), pod: beside, boot, since, certainty })
}

fn answers(model: &ClusterModel, id: &NodeId) -> bool {
    let is_it =
        |pod: &Valkey, connected: bool| matches!(pod, Valkey::Answers(facts) if connected && facts.node_id == *id);
    model.by_id(id).is_some() || model.members.iter().any(|member| is_it(&member.pod.valkey, member.pod.connected))
}

/// The pod that had it last.
fn beside<'a>(model: &ClusterModel<'a>, id: &NodeId) -> Option<Member<'a>> {
    model.members.iter().find(|member| departed::last_id(model, member) == Some(id)).copied()
}

fn attested(member: &Member) -> Option<Timestamp> {
    match &member.pod.valkey {
        Valkey::Down { since, .. } => Some(*since),
        Valkey::Waiting(boot) => Some(boot.since),
        _ => None,
    }
}

/// Every primary that is heard doubts it; with none of them left, every node. What was last read counts until it is read again: a
/// doubt that came and went with every reading would be of no use to anybody.
fn is_suspected<'a>(model: &ClusterModel<'a>, id: &NodeId) -> bool {
    let owns = |member: &&Member| member.facts().is_some_and(|facts| facts.summary.slots_mine > 0);
    let follows = |member: &&Member| member.is(Role::Replica);
    let ours = || model.members.iter().filter(|member| member.belongs());
    let view = |member: &Member<'a>| member.pod.view.as_ref();
    let primaries: Vec<&NodeView> = ours().filter(owns).filter_map(view).collect();
    let speakers = if primaries.is_empty() { ours().filter(follows).filter_map(view).collect() } else { primaries };
    let doubts = |node: &ViewedNode| node.failing || node.possibly_failing;
    !speakers.is_empty() && speakers.iter().all(|view| view.get(id).is_some_and(doubts))
}
