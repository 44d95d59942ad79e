//! Replicas copy their primaries: what is missing when the histories fit, else everything, and then nothing of their own is left.

use crate::node::Node;
use crate::world::World;
use topology::Role;

/// How long a full copy takes, in milliseconds.
const FULL_COPY: u64 = 300;

impl World {
    pub(crate) fn replicate(&mut self) {
        let beat = self.now.is_multiple_of(1_000);
        for node in self.pods.values_mut().filter_map(|pod| pod.node_mut()) {
            node.offset += u64::from(beat && node.role == Role::Primary && !node.slots.is_empty());
        }
        let replicas: Vec<String> =
            self.nodes().filter(|node| node.role == Role::Replica).map(|node| node.pod.clone()).collect();
        for name in replicas {
            self.follow(&name);
        }
    }

    fn follow(&mut self, name: &str) {
        let now = self.now;
        let source = self.node(name).and_then(|node| self.source(node));
        let nothing_new = |node: &Node, primary: &Node| {
            let same = node.replication_id == primary.replication_id && node.offset == primary.offset;
            same && node.link_up && node.syncing_until.is_none()
        };
        if self.node(name).zip(source).is_some_and(|(node, primary)| nothing_new(node, primary)) {
            return;
        }
        let primary = source.cloned();
        let Some(node) = self.node_mut(name) else { return };
        let Some(primary) = primary else {
            node.lose_link(now);
            node.syncing_until = None;
            return;
        };
        let shared =
            node.replication_id == primary.replication_id || node.replication_id == primary.second_replication_id;
        match node.syncing_until {
            _ if shared && node.offset <= primary.offset && node.syncing_until.is_none() => copy(node, &primary),
            None => {
                node.lose_link(now);
                node.syncing_until = Some(now + FULL_COPY);
            }
            Some(until) if now >= until => {
                node.syncing_until = None;
                copy(node, &primary);
            }
            Some(_) => {}
        }
    }

    /// The primary this replica reaches, if it is one.
    fn source(&self, node: &Node) -> Option<&Node> {
        let id = node.primary.as_ref()?;
        let pod = self.at(&node.peers.get(id)?.ip)?;
        let primary = pod.node().filter(|other| other.id == *id && other.role == Role::Primary)?;
        (self.reachable(&node.pod, &primary.pod) && !self.unlinked.contains(&node.pod)).then_some(primary)
    }
}

fn copy(node: &mut Node, primary: &Node) {
    node.keys = primary.keys.clone();
    (node.offset, node.replication_id, node.link_up) = (primary.offset, primary.replication_id, true);
    node.second_replication_id = primary.second_replication_id;
}
