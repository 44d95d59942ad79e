//! The observation made readable: who each pod is to this cluster, and what all views together say. Pure.

use super::action::Action;
use super::departed;
use super::limits::{self, age};
use super::observation::{Boot, NodeFacts, NodeObservation, Outcome, PodObservation, Target, Valkey};
use super::record::{Orchestration, OrchestrationKind, Shard, ShardNode};
use jiff::Timestamp;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use topology::{ClusterMap, NodeId, NodeView, PodName, Role, SLOTS, SlotSet};

/// What a pod is to this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Not heard: nothing is known and nothing is done.
    Unknown,
    /// Heard, and its view has yet to be read.
    Unread,
    Down,
    /// At the boot gate.
    Waiting,
    /// Knows nobody, has no keys and no slots.
    Fresh,
    /// Knows nobody, has slots that no node of ours claims, and no keys: a formation or repair was interrupted.
    Founder,
    Ours,
    /// A node that never belonged here.
    Foreign,
    /// Another pod says it is the same node.
    Duplicate,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub pod: &'a PodObservation,
    /// Its ordinal is within what the spec asks for.
    pub wanted: bool,
    pub membership: Membership,
}

pub(crate) struct ClusterModel<'a> {
    pub target: &'a Target,
    pub recorded: &'a [Shard],
    pub running: Option<&'a Orchestration>,
    /// Scaling was begun, and makes way for something more urgent.
    pub scale_waits: bool,
    pub now: Timestamp,
    /// In order of their ordinals.
    pub members: Vec<Member<'a>>,
    pub map: ClusterMap,
    /// The recorded cluster had volumes, and no node of it is left.
    pub emptied: bool,
    /// Full views are read from some nodes only.
    pub large: bool,
    /// Who shall own the slots, once that was asked for.
    pub primaries: OnceCell<Vec<Member<'a>>>,
    covered: OnceCell<SlotSet>,
    indexes: OnceCell<BTreeMap<&'a NodeId, usize>>,
}

/// A pod's view, if it is no older than its latest word.
pub(crate) fn current_view(pod: &PodObservation) -> Option<&NodeView> {
    let facts = facts(pod)?;
    let same = |view: &&NodeView| view.myself().is_some_and(|node| node.node_id == facts.node_id);
    pod.view.as_ref().filter(same).filter(|view| view.summary == facts.summary)
}

/// What a pod that is on the line says, if its Valkey answers.
pub(crate) fn facts(pod: &PodObservation) -> Option<&NodeFacts> {
    match &pod.valkey {
        Valkey::Answers(facts) if pod.connected => Some(facts),
        _ => None,
    }
}

impl<'a> Member<'a> {
    pub fn facts(&self) -> Option<&'a NodeFacts> {
        facts(self.pod).filter(|_| self.membership != Membership::Unknown)
    }

    pub fn boot(&self) -> Option<&'a Boot> {
        match &self.pod.valkey {
            Valkey::Waiting(boot) if self.pod.connected => Some(boot),
            _ => None,
        }
    }

    pub fn id(&self) -> Option<&'a NodeId> {
        self.facts().map(|facts| &facts.node_id)
    }

    pub fn has_id(&self, id: &NodeId) -> bool {
        self.id() == Some(id)
    }

    /// Knows no other node.
    pub fn alone(&self) -> bool {
        self.facts().is_some_and(|facts| facts.summary.known_nodes <= 1)
    }

    pub fn is(&self, role: Role) -> bool {
        self.facts().is_some_and(|facts| facts.role == role)
    }

    pub fn view(&self) -> Option<&'a NodeView> {
        self.facts().and_then(|_| current_view(self.pod))
    }

    /// It answers its sidecar, and did not answer us.
    pub fn is_mute(&self) -> bool {
        self.pod.connected && self.membership == Membership::Unknown && matches!(self.pod.valkey, Valkey::Answers(_))
    }

    /// One of this cluster, or about to be.
    pub fn belongs(&self) -> bool {
        matches!(self.membership, Membership::Ours | Membership::Fresh | Membership::Founder)
    }

    pub fn name(&self) -> &'a PodName {
        &self.pod.name
    }
}

impl<'a> ClusterModel<'a> {
    pub fn new(target: &'a Target, seen: &'a NodeObservation, now: Timestamp) -> ClusterModel<'a> {
        let map = ClusterMap::of(seen.pods.iter().filter_map(current_view));
        let gone = nothing_left(seen, &map, target);
        let emptied = gone && target.persistent && !seen.recorded.is_empty();
        let recorded = if gone && !emptied { &[] } else { seen.recorded.as_slice() };
        let scale_waits = seen.queue.iter().any(|queued| queued.kind == OrchestrationKind::Scale);
        let mut model = ClusterModel {
            target,
            recorded,
            running: seen.running.as_ref(),
            scale_waits,
            now,
            members: Vec::new(),
            map,
            emptied,
            large: target.pods() > limits::ALL_VIEWS,
            covered: OnceCell::new(),
            indexes: OnceCell::new(),
            primaries: OnceCell::new(),
        };
        // What is remembered on first use needs the members: nothing before this line asks for it.
        let trusted = model.trusted(seen);
        model.members = seen.pods.iter().map(|pod| model.member(pod, seen, &trusted)).collect();
        model.members.sort_by_key(|member| (member.pod.name.ordinal(), &member.pod.name));
        model
    }

    fn member(&self, pod: &'a PodObservation, seen: &NodeObservation, trusted: &BTreeSet<NodeId>) -> Member<'a> {
        let wanted = pod.name.ordinal().is_some_and(|ordinal| ordinal < self.target.pods());
        Member { pod, wanted, membership: self.membership(pod, seen, trusted) }
    }

    fn membership(&self, pod: &PodObservation, seen: &NodeObservation, trusted: &BTreeSet<NodeId>) -> Membership {
        match &pod.valkey {
            _ if !pod.connected || unreadable(pod, self.now) => Membership::Unknown,
            Valkey::Unknown => Membership::Unknown,
            Valkey::Down { .. } => Membership::Down,
            Valkey::Waiting(_) => Membership::Waiting,
            Valkey::Answers(facts) if twins(seen, &facts.node_id) > 1 => Membership::Duplicate,
            Valkey::Answers(facts) if trusted.contains(&facts.node_id) => Membership::Ours,
            Valkey::Answers(facts) if facts.summary.known_nodes <= 1 => self.loner(facts, trusted),
            Valkey::Answers(facts) => self.stranger(facts, pod, seen, trusted),
        }
    }

    /// A node that knows nobody and is not on record.
    fn loner(&self, facts: &NodeFacts, trusted: &BTreeSet<NodeId>) -> Membership {
        let claimed = self.map.claimed(&facts.node_id).cloned().unwrap_or_default();
        let of_ours = |id: &&NodeId| **id != facts.node_id && trusted.contains(*id);
        let ours = self.map.ids().filter(of_ours).filter_map(|id| self.map.claimed(id));
        let free = !ours.fold(SlotSet::default(), |all, slots| all.union(slots)).overlaps(&claimed);
        match facts {
            facts if facts.role == Role::Replica => Membership::Foreign,
            facts if facts.keys > 0 && !self.wrote_early(facts) => Membership::Foreign,
            facts if facts.summary.slots_mine == 0 => Membership::Fresh,
            _ if free => Membership::Founder,
            _ => Membership::Foreign,
        }
    }

    /// A client may have found a node in the middle of a formation, between its getting slots and its being met.
    fn wrote_early(&self, facts: &NodeFacts) -> bool {
        let forming =
            self.recorded.is_empty() && self.running.is_some_and(|running| running.kind == OrchestrationKind::Form);
        let share = usize::from(SLOTS).div_ceil(self.target.masters.max(1));
        let slots = usize::try_from(facts.summary.slots_mine).unwrap_or(usize::MAX);
        forming && slots > 0 && slots <= share
    }

    /// A node that knows others and is not on record: ours when it was joining, with nothing of its own, or when it was met.
    fn stranger(
        &self,
        facts: &NodeFacts,
        pod: &PodObservation,
        seen: &NodeObservation,
        trusted: &BTreeSet<NodeId>,
    ) -> Membership {
        let Some(view) = current_view(pod) else {
            let known = self.large && self.map.is_known(&facts.node_id);
            return if known { Membership::Ours } else { Membership::Unread };
        };
        let empty = facts.keys == 0 && facts.summary.slots_mine == 0;
        let follows = facts.role == Role::Replica && facts.primary.as_ref().is_some_and(|id| trusted.contains(id));
        let among_ours = view.others().any(|node| trusted.contains(&node.node_id));
        // While a cluster forms, the nodes know each other in several groups, and only the largest is trusted yet.
        let only_ours = view.others().all(|node| twins(seen, &node.node_id) == 1);
        if self.recorded.is_empty() && only_ours && (facts.keys == 0 || self.wrote_early(facts)) {
            return Membership::Ours;
        }
        let ours = among_ours && (empty || follows || was_met(&facts.node_id, view, seen, trusted));
        if ours { Membership::Ours } else { Membership::Foreign }
    }

    /// The ids that belong here: those on record, or with no record the largest set of our pods' nodes that know each other.
    fn trusted(&self, seen: &NodeObservation) -> BTreeSet<NodeId> {
        if !self.recorded.is_empty() {
            return self.recorded_nodes().map(|node| node.node_id.clone()).collect();
        }
        let ids: BTreeSet<&NodeId> = seen.pods.iter().filter_map(facts).map(|facts| &facts.node_id).collect();
        let mut groups = groups(seen, &ids);
        groups.retain(|group| group.len() > 1);
        let weight = |group: &BTreeSet<NodeId>| {
            let slots: u32 = group.iter().map(|id| self.map.attributed(id).count()).sum();
            (slots, group.len())
        };
        groups.into_iter().max_by_key(weight).unwrap_or_default()
    }

    pub fn recorded_nodes(&self) -> impl Iterator<Item = &'a ShardNode> + use<'a> {
        self.recorded.iter().flat_map(|shard| &shard.nodes)
    }

    pub fn recorded_node(&self, id: &NodeId) -> Option<&'a ShardNode> {
        self.recorded_nodes().find(|node| node.node_id == *id)
    }

    /// The pod that had this node when it was last recorded.
    pub fn recorded_pod(&self, id: &NodeId) -> Option<&'a PodName> {
        self.recorded_node(id).map(|node| &node.pod)
    }

    pub fn recorded_shard(&self, id: &NodeId) -> Option<&'a Shard> {
        self.recorded.iter().find(|shard| shard.nodes.iter().any(|node| node.node_id == *id))
    }

    pub fn by_id(&self, id: &NodeId) -> Option<Member<'a>> {
        let index = |(index, member): (usize, &Member<'a>)| member.id().map(|id| (id, index));
        let indexes = self.indexes.get_or_init(|| self.members.iter().enumerate().rev().filter_map(index).collect());
        indexes.get(id).and_then(|index| self.members.get(*index)).copied()
    }

    pub fn by_name(&self, name: &PodName) -> Option<Member<'a>> {
        self.members.iter().find(|member| member.name() == name).copied()
    }

    pub fn belonging(&self) -> Vec<Member<'a>> {
        self.members.iter().filter(|member| member.belongs()).copied().collect()
    }

    /// The slots a pod's node has by its own word.
    pub fn slots(&self, member: &Member) -> SlotSet {
        let Some(facts) = member.facts() else { return SlotSet::default() };
        match self.map.claimed(&facts.node_id) {
            Some(slots) => slots.clone(),
            None if facts.summary.slots_mine > 0 => self.map.attributed(&facts.node_id),
            None => SlotSet::default(),
        }
    }

    /// Slots that nodes of our pods say are their own; of nodes whose view is not read, by their count and others' word.
    pub fn covered(&self) -> &SlotSet {
        self.covered.get_or_init(|| {
            let unread = self.members.iter().filter(|member| member.view().is_none());
            unread.fold(self.map.covered(), |all, member| all.union(&self.slots(member)))
        })
    }

    /// Owner → slots by the nodes' words, and by the record for slots that nobody speaks of.
    pub fn ownership(&self) -> BTreeMap<NodeId, SlotSet> {
        let mut owners = self.map.owners();
        // One that was never recorded is ours if its pod, by its host name, is one of ours and runs another node now.
        let was_ours = |id: &NodeId| self.recorded_pod(id).is_some() || departed::successor(self, id).is_some();
        let ours = |id: &NodeId| self.by_id(id).map_or_else(|| was_ours(id), |member| member.belongs());
        owners.retain(|id, _| self.recorded.is_empty() || ours(id));
        let spoken = owners.values().fold(SlotSet::default(), |all, slots| all.union(slots));
        for shard in self.recorded {
            let (Some(primary), slots) = (shard.primary(), shard.slots.difference(&spoken)) else { continue };
            if !slots.is_empty() && !owners.contains_key(&primary.node_id) {
                owners.insert(primary.node_id.clone(), slots);
            }
        }
        owners
    }

    /// Pods that own slots and belong here.
    pub fn owners(&self) -> Vec<Member<'a>> {
        self.belonging().into_iter().filter(|member| !self.slots(member).is_empty()).collect()
    }

    /// Replicas of a node, by their own word.
    pub fn replicas_of(&self, id: &NodeId) -> Vec<Member<'a>> {
        let follows = |member: &&Member| {
            member.facts().is_some_and(|facts| facts.role == Role::Replica && facts.primary.as_ref() == Some(id))
        };
        self.members.iter().filter(follows).copied().collect()
    }

    /// Pods that are wanted and not there, and any pod, wanted or not, of which is not known which node it has; nothing may rest on what
    /// they might hold.
    pub fn unheard(&self) -> Vec<PodName> {
        self.silent(|member| is_unheard(member) || departed::is_nameless(self, member))
    }

    /// Of the pods that are wanted, those not there or not heard: what others are like says nothing about whether the cluster is whole.
    pub fn unheard_wanted(&self) -> Vec<PodName> {
        self.silent(|member| member.wanted && is_unheard(member))
    }

    fn silent(&self, is_silent: impl Fn(&Member<'a>) -> bool) -> Vec<PodName> {
        let silent = self.members.iter().filter(|member| is_silent(member));
        let present = self.members.iter().filter_map(|member| member.pod.name.ordinal()).collect::<BTreeSet<_>>();
        let missing = (0..self.target.pods()).filter(|ordinal| !present.contains(ordinal));
        let missing = missing.map(|ordinal| PodName::new(format!("{}-{ordinal}", self.target.cluster)));
        silent.map(|member| member.pod.name.clone()).chain(missing).collect()
    }

    /// Every wanted pod's Valkey answers.
    pub fn all_answer(&self) -> bool {
        let answers = self.members.iter().filter(|member| member.wanted && member.facts().is_some());
        answers.count() >= self.target.pods()
    }

    /// Since when the running orchestration of this kind has been in its present step.
    pub fn step_age(&self, kind: OrchestrationKind) -> Option<std::time::Duration> {
        let running = self.running.filter(|running| running.kind == kind)?;
        Some(age(self.now, running.step_started_at))
    }
}

fn is_unheard(member: &Member) -> bool {
    matches!(member.membership, Membership::Unknown | Membership::Unread)
}

/// It answered a question for its view with nonsense or not at all: as good as not heard, for a while.
fn unreadable(pod: &PodObservation, now: Timestamp) -> bool {
    pod.answer.as_ref().is_some_and(|answer| {
        answer.action == Action::ReadView
            && answer.outcome != Outcome::Done
            && age(now, answer.at) < limits::REPEAT_REFUSED
    })
}

fn twins(seen: &NodeObservation, id: &NodeId) -> usize {
    seen.pods.iter().filter_map(facts).filter(|facts| facts.node_id == *id).count()
}

/// Nodes on record know it, which are introduced to nobody else's, and it knows nobody whom they do not: it was given what it has, and
/// whoever did that ended before it was written down.
fn was_met(id: &NodeId, view: &NodeView, seen: &NodeObservation, trusted: &BTreeSet<NodeId>) -> bool {
    let on_record = |pod: &&PodObservation| facts(pod).is_some_and(|facts| trusted.contains(&facts.node_id));
    let views: Vec<&NodeView> = seen.pods.iter().filter(on_record).filter_map(current_view).collect();
    let known = |id: &NodeId| views.iter().any(|view| view.get(id).is_some_and(|node| !node.handshake));
    known(id) && view.others().all(|other| trusted.contains(&other.node_id) || known(&other.node_id))
}

/// Every pod there answers, as many as are wanted, and no node on record is known to anybody: the recorded cluster is gone, and with it
/// its data unless volumes hold it somewhere. A pod that is gone took what it had along.
fn nothing_left(seen: &NodeObservation, map: &ClusterMap, target: &Target) -> bool {
    let answering: Vec<&NodeFacts> = seen.pods.iter().filter_map(facts).collect();
    let read = |pod: &PodObservation| {
        facts(pod).is_none_or(|facts| facts.summary.known_nodes <= 1 || current_view(pod).is_some())
    };
    let current: BTreeSet<&NodeId> = answering.iter().map(|facts| &facts.node_id).collect();
    let exists = |node: &ShardNode| current.contains(&node.node_id) || map.is_known(&node.node_id);
    let mut nodes = seen.recorded.iter().flat_map(|shard| &shard.nodes);
    answering.len() >= target.pods().max(seen.pods.len()) && seen.pods.iter().all(read) && !nodes.any(exists)
}

/// Our pods' nodes, grouped by who knows whom.
fn groups(seen: &NodeObservation, ids: &BTreeSet<&NodeId>) -> Vec<BTreeSet<NodeId>> {
    let mut group_of: BTreeMap<NodeId, usize> =
        ids.iter().enumerate().map(|(index, id)| ((*id).clone(), index)).collect();
    for view in seen.pods.iter().filter_map(current_view) {
        let known: Vec<usize> = view.nodes.iter().filter_map(|node| group_of.get(&node.node_id)).copied().collect();
        let first = known.iter().copied().min().unwrap_or_default();
        group_of.values_mut().filter(|group| known.contains(group)).for_each(|group| *group = first);
    }
    let mut groups: BTreeMap<usize, BTreeSet<NodeId>> = BTreeMap::new();
    for (id, group) in group_of {
        groups.entry(group).or_default().insert(id);
    }
    groups.into_values().collect()
}
