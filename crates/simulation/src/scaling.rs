//! Slots that move from one primary to another, and nodes that leave their cluster. In memory.

use crate::command::outcome;
use crate::node::{Node, slot};
use crate::world::World;
use planner::nodes::Outcome;
use sidecar_rules::commands::Need;
use sidecar_rules::commands::leave::{self, Held, Primary};
use sidecar_rules::commands::migrate_slots::{self, Closing, FarEnd};
use std::collections::{BTreeMap, BTreeSet};
use topology::{NodeId, Role, SlotMove, SlotRange, SlotSet};

/// Slots that move in one go.
const IN_ONE_GO: u32 = 1_500;

type Work = Result<(), Outcome>;

impl World {
    /// As Valkey 9 does it atomically, or key by key with the same end unless it breaks off: the target takes the slots with a newer epoch, and has the keys with its replicas.
    pub(crate) fn migrate(&mut self, source: &Node, wanted: &SlotSet, to: &NodeId, replicas: usize) -> Work {
        migrate_slots::check(&source.cluster_nodes(), to, wanted).map_err(outcome)?;
        self.close_all(source, to)?;
        let source = &self.node(&source.pod).cloned().ok_or_else(|| failed("Valkey is gone"))?;
        let slots = wanted.intersection(&source.slots).first(IN_ONE_GO);
        if slots.is_empty() {
            return Ok(());
        }
        let ip =
            source.peers.get(to).map(|peer| peer.ip.clone()).ok_or_else(|| failed("this node does not know it"))?;
        let target =
            self.at(&ip).and_then(|pod| pod.node()).filter(|node| node.id == *to && node.role == Role::Primary);
        let target = target.filter(|node| self.reachable(&source.pod, &node.pod)).cloned();
        let target = target.ok_or_else(|| failed("the target does not answer as a primary"))?;
        let needed = self.copies(source).min(replicas);
        if self.copies(&target) < needed {
            return Err(failed("too few replicas follow the target"));
        }
        if !target.peers.contains_key(&source.id) {
            return Err(failed("the target does not know this node"));
        }
        if self.breaks_off > 0 && self.chance.u32(..self.breaks_off) == 0 && self.leaves_half(source, &target, &slots) {
            return Err(failed("the connection to the target is gone"));
        }
        self.give(source, &target, &slots);
        Ok(())
    }

    fn give(&mut self, source: &Node, target: &Node, slots: &SlotSet) {
        let epoch = source.current_epoch.max(target.current_epoch) + 1;
        self.send(source, target, &keys_of(source, slots));
        self.takes(target, slots, epoch, &source.id);
        self.gives(source, slots, epoch, &target.id);
    }

    fn send(&mut self, source: &Node, target: &Node, keys: &BTreeSet<u32>) {
        self.with_followers(target, |node| node.keys.extend(keys));
        self.with_followers(source, |node| node.keys.retain(|key| !keys.contains(key)));
    }

    /// The first slot with keys stands open on both ends, and at least one key is on the other side. False without any key.
    fn leaves_half(&mut self, source: &Node, target: &Node, slots: &SlotSet) -> bool {
        let Some(open) = keys_of(source, slots).first().map(|key| slot(*key)) else { return false };
        let keys = keys_of(source, &one(open));
        let half = keys.iter().take(keys.len().div_ceil(2)).copied().collect();
        self.send(source, target, &half);
        for (pod, other, importing) in [(&source.pod, &target.id, false), (&target.pod, &source.id, true)] {
            if let Some(node) = self.node_mut(pod) {
                node.moves.push(SlotMove { slot: open, other: other.clone(), importing });
            }
        }
        true
    }

    /// What an earlier move left open: on this node, or where the target still expects it from here.
    fn close_all(&mut self, source: &Node, to: &NodeId) -> Work {
        let expected = self.view_of_primary(source, to).into_iter().flat_map(|target| &target.moves);
        let expected = expected.filter(|open| open.importing && open.other == source.id && source.owns(open.slot));
        let mut open: BTreeMap<u16, NodeId> = expected.map(|open| (open.slot, to.clone())).collect();
        open.extend(source.moves.iter().filter(|open| !open.importing).map(|open| (open.slot, open.other.clone())));
        open.into_iter().try_for_each(|(slot, other)| self.close(&source.pod, slot, &other))
    }

    fn close(&mut self, pod: &str, open: u16, other: &NodeId) -> Work {
        let source = self.node(pod).cloned().ok_or_else(|| failed("Valkey is gone"))?;
        let target = self.view_of_primary(&source, other).cloned();
        let there = target.as_ref().map(|node| {
            let keys = count(&keys_of(node, &one(open)));
            FarEnd { view: node.cluster_nodes(), keys }
        });
        match migrate_slots::close(&source.cluster_nodes(), open, other, there.as_ref(), true).map_err(outcome)? {
            Closing::Finish => target.into_iter().for_each(|target| self.give(&source, &target, &one(open))),
            Closing::TurnBack => {
                self.node_mut(pod).into_iter().for_each(|node| node.moves.retain(|it| it.slot != open));
            }
        }
        Ok(())
    }

    fn takes(&mut self, target: &Node, slots: &SlotSet, epoch: u64, from: &NodeId) {
        let Some(node) = self.node_mut(&target.pod) else { return };
        node.slots = node.slots.union(slots);
        node.moves.retain(|open| !slots.contains(open.slot));
        (node.config_epoch, node.current_epoch) = (epoch, epoch);
        if let Some(peer) = node.peers.get_mut(from) {
            peer.slots = peer.slots.difference(slots);
        }
    }

    fn gives(&mut self, source: &Node, slots: &SlotSet, epoch: u64, to: &NodeId) {
        let Some(node) = self.node_mut(&source.pod) else { return };
        node.slots = node.slots.difference(slots);
        node.moves.retain(|open| !slots.contains(open.slot));
        node.current_epoch = node.current_epoch.max(epoch);
        if let Some(peer) = node.peers.get_mut(to) {
            (peer.slots, peer.config_epoch) = (peer.slots.union(slots), epoch);
        }
    }

    fn copies(&self, primary: &Node) -> usize {
        self.nodes().filter(|node| node.primary.as_ref() == Some(&primary.id) && node.link_up).count()
    }

    fn view_of_primary(&self, node: &Node, id: &NodeId) -> Option<&Node> {
        let there = self.at(&node.peers.get(id)?.ip).filter(|pod| self.reachable(&node.pod, &pod.name));
        there.and_then(|pod| pod.node())
    }

    /// What happens to a primary's keys happens to those of its replicas that follow.
    fn with_followers(&mut self, primary: &Node, change: impl Fn(&mut Node)) {
        let follows = |node: &&Node| node.primary.as_ref() == Some(&primary.id) && node.link_up;
        let names: Vec<String> = self.nodes().filter(follows).map(|node| node.pod.clone()).collect();
        let offset = primary.offset + 1;
        for name in names.iter().chain([&primary.pod]) {
            if let Some(node) = self.node_mut(name) {
                change(node);
                node.offset = offset;
            }
        }
    }

    /// What a replica's primary says of itself.
    pub(crate) fn ask_primary(&self, node: &Node) -> Option<Primary> {
        let primary = self.view_of_primary(node, &leave::primary_to_ask(&node.cluster_nodes())?.id)?;
        let replication_id = primary.position().replication_id;
        Some(Primary { view: primary.cluster_nodes(), keys: count(&primary.keys), replication_id })
    }

    /// CLUSTER RESET HARD on a node that nobody needs.
    pub(crate) fn leave(&mut self, node: &Node) -> Work {
        let nodes = node.cluster_nodes();
        let may_come = |open: &&SlotMove| {
            let other = self.view_of_primary(node, &open.other).map(Node::cluster_nodes);
            node.primary.is_none() && leave::may_come(&node.id, open, other.as_ref())
        };
        let held = Held {
            keys: count(&node.keys),
            link_up: node.link_up,
            replication_id: node.position().replication_id,
            migrates: false,
            may_come: node.moves.iter().filter(may_come).cloned().collect(),
        };
        let primary = self.ask_primary(node);
        if leave::check(&nodes, &held, primary.as_ref()).map_err(outcome)? == Need::Nothing {
            return Ok(());
        }
        let (id, replication_id) = (self.node_id(), self.chance.u64(..));
        let fresh = Node::new(id, &node.pod, &node.ip, replication_id, node.started_at);
        self.node_mut(&node.pod).map(|node| *node = fresh).ok_or_else(|| failed("Valkey is gone"))
    }
}

fn count(keys: &BTreeSet<u32>) -> u64 {
    u64::try_from(keys.len()).unwrap_or(u64::MAX)
}

fn keys_of(node: &Node, slots: &SlotSet) -> BTreeSet<u32> {
    node.keys.iter().copied().filter(|key| slots.contains(slot(*key))).collect()
}

fn one(slot: u16) -> SlotSet {
    SlotSet::of([SlotRange::new(slot, slot)]).unwrap_or_default()
}

fn failed(text: &str) -> Outcome {
    Outcome::Failed(text.to_owned())
}
