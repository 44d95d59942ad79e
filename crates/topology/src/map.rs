//! All views of one cluster held against each other. Pure; a node's own word about its slots counts more than what others say.

use crate::identity::NodeId;
use crate::slots::SlotSet;
use crate::view::{NodeView, Role};
use std::collections::{BTreeMap, BTreeSet};

/// Two nodes that each say the same slots are theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub one: NodeId,
    pub two: NodeId,
    pub slots: SlotSet,
}

/// What all views together say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterMap {
    own: BTreeMap<NodeId, SlotSet>,
    attributed: BTreeMap<NodeId, SlotSet>,
    epochs: BTreeMap<NodeId, u64>,
    known: BTreeMap<NodeId, usize>,
    failing: BTreeMap<NodeId, usize>,
    ownerships: BTreeSet<Vec<(NodeId, SlotSet)>>,
}

impl ClusterMap {
    /// From each speaker's view. A view whose own line is missing is left out: nothing is built on it.
    pub fn of<'a>(views: impl IntoIterator<Item = &'a NodeView>) -> ClusterMap {
        let mut map = ClusterMap::default();
        for view in views {
            if let Some(myself) = view.myself() {
                map.own.insert(myself.node_id.clone(), myself.slots.clone());
                map.add(view, myself.role == Role::Primary && !myself.slots.is_empty());
            }
        }
        map
    }

    fn add(&mut self, view: &NodeView, votes_count: bool) {
        let mut ownership = Vec::new();
        for node in view.nodes.iter().filter(|node| !node.handshake) {
            let epoch = self.epochs.entry(node.node_id.clone()).or_default();
            *epoch = node.config_epoch.max(*epoch);
            *self.known.entry(node.node_id.clone()).or_default() += 1;
            let votes = self.failing.entry(node.node_id.clone()).or_default();
            *votes += usize::from(node.failing && votes_count);
            if !node.slots.is_empty() {
                let slots = self.attributed.entry(node.node_id.clone()).or_default();
                *slots = slots.union(&node.slots);
                ownership.push((node.node_id.clone(), node.slots.clone()));
            }
        }
        // Who knows nobody has no opinion.
        if view.nodes.len() > 1 || !ownership.is_empty() {
            ownership.sort();
            self.ownerships.insert(ownership);
        }
    }

    /// Whether this node was heard itself.
    pub fn heard(&self, id: &NodeId) -> bool {
        self.own.contains_key(id)
    }

    /// The slots a node says are its own; None when it was not heard.
    pub fn claimed(&self, id: &NodeId) -> Option<&SlotSet> {
        self.own.get(id)
    }

    /// The slots anybody says are this node's.
    pub fn attributed(&self, id: &NodeId) -> SlotSet {
        self.attributed.get(id).cloned().unwrap_or_default()
    }

    /// Owner → slots: a node's own word if it was heard, else what others say less what somebody claims himself.
    pub fn owners(&self) -> BTreeMap<NodeId, SlotSet> {
        let claimed = self.covered();
        let silent = self.attributed.iter().filter(|(id, _)| !self.heard(id));
        let silent = silent.map(|(id, slots)| (id.clone(), slots.difference(&claimed)));
        let own = self.own.iter().map(|(id, slots)| (id.clone(), slots.clone()));
        own.chain(silent).filter(|(_, slots)| !slots.is_empty()).collect()
    }

    /// Slots somebody says are his own.
    pub fn covered(&self) -> SlotSet {
        self.own.values().fold(SlotSet::default(), |all, slots| all.union(slots))
    }

    /// Slots that nobody says are anybody's.
    pub fn unassigned(&self) -> SlotSet {
        self.attributed.values().fold(SlotSet::default(), |all, slots| all.union(slots)).complement()
    }

    pub fn conflicts(&self) -> Vec<Conflict> {
        let owners: Vec<(&NodeId, &SlotSet)> = self.own.iter().filter(|(_, slots)| !slots.is_empty()).collect();
        let mut conflicts = Vec::new();
        for (index, (one, slots)) in owners.iter().enumerate() {
            for (two, others) in owners.iter().skip(index + 1).filter(|(_, others)| slots.overlaps(others)) {
                let slots = slots.intersection(others);
                conflicts.push(Conflict { one: (*one).clone(), two: (*two).clone(), slots });
            }
        }
        conflicts
    }

    /// Every view gives every slot to the same owner.
    pub fn agrees(&self) -> bool {
        self.ownerships.len() <= 1
    }

    /// Every id in any view.
    pub fn ids(&self) -> impl Iterator<Item = &NodeId> {
        self.known.keys()
    }

    pub fn is_known(&self, id: &NodeId) -> bool {
        self.known.contains_key(id)
    }

    /// How many primaries that were heard say that this node has failed.
    pub fn failing_votes(&self, id: &NodeId) -> usize {
        self.failing.get(id).copied().unwrap_or_default()
    }

    pub fn config_epoch(&self, id: &NodeId) -> u64 {
        self.epochs.get(id).copied().unwrap_or_default()
    }

    pub fn highest_epoch(&self) -> u64 {
        self.epochs.values().copied().max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{ViewSummary, ViewedNode};
    use jiff::Timestamp;

    fn line(id: &str, myself: bool, slots: &str) -> ViewedNode {
        ViewedNode {
            node_id: NodeId::new(id),
            ip: "10.0.0.1".to_owned(),
            hostname: None,
            role: Role::Primary,
            myself,
            failing: id == "dead",
            possibly_failing: false,
            handshake: id == "half",
            link_up: true,
            primary: None,
            config_epoch: 1,
            slots: slots.parse().unwrap(),
            moves: Vec::new(),
        }
    }

    fn view(nodes: Vec<ViewedNode>) -> NodeView {
        NodeView { read_at: Timestamp::UNIX_EPOCH, summary: ViewSummary::default(), nodes }
    }

    #[test]
    fn a_nodes_own_word_about_its_slots_beats_what_others_say() {
        let one = view(vec![line("a", true, "0-9"), line("b", false, "10-19"), line("dead", false, "20-29")]);
        let two = view(vec![line("b", true, "5-19"), line("a", false, "0-4")]);
        let map = ClusterMap::of([&one, &two]);
        let owners: Vec<String> = map.owners().iter().map(|(id, slots)| format!("{id}:{slots}")).collect();
        assert_eq!(owners, ["a:0-9", "b:5-19", "dead:20-29"]);
        assert_eq!(map.conflicts().first().map(|conflict| conflict.slots.to_string()).as_deref(), Some("5-9"));
        assert!(!map.agrees() && map.failing_votes(&"dead".into()) == 1);
    }

    #[test]
    fn a_half_met_node_is_not_part_of_the_map() {
        let map = ClusterMap::of([&view(vec![line("a", true, "0-16383"), line("half", false, "")])]);
        assert!(!map.is_known(&"half".into()) && map.unassigned().is_empty() && map.agrees());
    }

    #[test]
    fn a_view_without_its_speaker_is_left_out() {
        assert_eq!(ClusterMap::of([&view(vec![line("a", false, "0-9")])]), ClusterMap::default());
    }
}
