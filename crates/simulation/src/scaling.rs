//! Slots that move from one primary to another, and nodes that leave their cluster. In memory.

use crate::command::outcome;
use crate::node::{Node, slot};
use crate::world::World;
use planner::nodes::Outcome;
use sidecar_rules::commands::leave::{self, Held, Primary};
use sidecar_rules::commands::{Need, migrate_slots};
use std::collections::BTreeSet;
use topology::{NodeId, Role, SlotSet};

/// Slots that move in one go.
const IN_ONE_GO: u32 = 1_500;

type Work = Result<(), Outcome>;

impl World {
    /// Atomic, as Valkey 9 does it: the target takes the slots with a newer epoch, and has the keys with its replicas.
    pub(crate) fn migrate(&mut self, source: &Node, wanted: &SlotSet, to: &NodeId, replicas: usize) -> Work {
        migrate_slots::check(&source.cluster_nodes(), to, wanted).map_err(outcome)?;
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
        let keys: BTreeSet<u32> = source.keys.iter().copied().filter(|key| slots.contains(slot(*key))).collect();
        let epoch = source.current_epoch.max(target.current_epoch) + 1;
        self.with_followers(&target, |node| node.keys.extend(&keys));
        self.with_followers(source, |node| node.keys.retain(|key| !keys.contains(key)));
        self.takes(&target, &slots, epoch, &source.id);
        self.gives(source, &slots, epoch, to);
        Ok(())
    }

    fn takes(&mut self, target: &Node, slots: &SlotSet, epoch: u64, from: &NodeId) {
        let Some(node) = self.node_mut(&target.pod) else { return };
        node.slots = node.slots.union(slots);
        (node.config_epoch, node.current_epoch) = (epoch, epoch);
        if let Some(peer) = node.peers.get_mut(from) {
            peer.slots = peer.slots.difference(slots);
        }
    }

    fn gives(&mut self, source: &Node, slots: &SlotSet, epoch: u64, to: &NodeId) {
        let Some(node) = self.node_mut(&source.pod) else { return };
        node.slots = node.slots.difference(slots);
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

    /// CLUSTER RESET HARD on a node that nobody needs.
    pub(crate) fn leave(&mut self, node: &Node) -> Work {
        let nodes = node.cluster_nodes();
        let primary = leave::primary_to_ask(&nodes).and_then(|primary| self.view_of_primary(node, &primary.id));
        let count = |node: &Node| u64::try_from(node.keys.len()).unwrap_or(u64::MAX);
        let held = Held { keys: count(node), link_up: node.link_up, replication_id: node.position().replication_id };
        let primary = primary.map(|primary| Primary {
            view: primary.cluster_nodes(),
            keys: count(primary),
            replication_id: primary.position().replication_id,
        });
        if leave::check(&nodes, &held, primary.as_ref()).map_err(outcome)? == Need::Nothing {
            return Ok(());
        }
        let (id, replication_id) = (self.node_id(), self.chance.u64(..));
        let fresh = Node::new(id, &node.pod, &node.ip, replication_id, node.started_at);
        self.node_mut(&node.pod).map(|node| *node = fresh).ok_or_else(|| failed("Valkey is gone"))
    }
}

fn failed(text: &str) -> Outcome {
    Outcome::Failed(text.to_owned())
}
