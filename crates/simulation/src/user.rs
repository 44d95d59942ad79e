//! What users do by hand in a pod. In memory.

use crate::world::World;
use topology::{NodeId, Role, SlotSet};

impl World {
    /// CLUSTER RESET, soft or hard. Valkey refuses it on a primary with keys.
    pub fn reset(&mut self, name: &str, hard: bool) -> bool {
        self.excuse(&[name]);
        let id = self.node_id();
        let Some(node) = self.node_mut(name) else { return false };
        if node.role == Role::Primary && !node.keys.is_empty() {
            return false;
        }
        if node.role == Role::Replica {
            node.keys.clear();
        }
        (node.role, node.primary, node.slots) = (Role::Primary, None, SlotSet::default());
        node.peers.clear();
        node.moves.clear();
        node.meeting.clear();
        if hard {
            (node.id, node.config_epoch, node.current_epoch) = (id, 0, 0);
        }
        self.forgive();
        true
    }

    /// CLUSTER FORGET on one node; the others hear of it.
    pub fn forget_by_hand(&mut self, at: &str, forgotten: &str) -> bool {
        let until = self.now + 60_000;
        let Some(id) = self.node(forgotten).map(|node| node.id.clone()) else { return false };
        let names: Vec<String> =
            self.nodes().map(|node| node.pod.clone()).filter(|name| self.reachable(at, name)).collect();
        for name in names {
            let Some(node) = self.node_mut(&name) else { continue };
            node.moves.retain(|open| open.other != id);
            if node.primary.as_ref() != Some(&id) && node.peers.remove(&id).is_some() {
                node.forgotten.insert(id.clone(), until);
            }
        }
        true
    }

    /// FLUSHALL: the keys were the user's to delete.
    pub fn flush(&mut self, name: &str) {
        let Some(node) = self.node_mut(name) else { return };
        node.keys.clear();
        node.offset += 1;
        let owner: Option<NodeId> = Some(node.id.clone());
        let replicas: Vec<String> =
            self.nodes().filter(|node| node.primary == owner).map(|node| node.pod.clone()).collect();
        for name in replicas {
            if let Some(node) = self.node_mut(&name) {
                node.keys.clear();
            }
        }
        self.forgive();
    }
}
