//! Votes: a replica of a failed primary asks the other primaries, by itself or when told to. In memory.

use crate::node::Node;
use crate::world::World;
use topology::{NodeId, Role};

/// `cluster-replica-validity-factor` node timeouts and `repl-ping-replica-period`, beyond the node timeout that a failure takes.
const OLDEST: u64 = 11_000;

impl World {
    pub(crate) fn elections(&mut self) {
        let now = self.now;
        let names: Vec<String> = self.nodes().map(|node| node.pod.clone()).collect();
        for name in names {
            let delay = 500 + self.chance.u64(..500);
            let Some(node) = self.node_mut(&name) else { continue };
            match (orphaned(node) && fresh(node, now), node.election_at) {
                (false, _) => node.election_at = None,
                (true, None) => node.election_at = Some(now + delay),
                (true, Some(at)) if at <= now => {
                    node.election_at = Some(now + 10_000);
                    self.elect(&name, false);
                }
                (true, Some(_)) => {}
            }
        }
    }

    /// Asks every primary for its vote; with a majority the replica takes its primary's slots.
    pub fn elect(&mut self, name: &str, forced: bool) -> bool {
        let Some(node) = self.node(name).cloned() else { return false };
        let Some(primary) = node.primary.clone() else { return false };
        let epoch = node.current_epoch + 1;
        let voters: Vec<String> = node.peers.iter().filter_map(|(id, peer)| self.voter(name, id, &peer.ip)).collect();
        let granted = voters.iter().filter(|voter| self.vote(voter, &node, &primary, epoch, forced)).count();
        if granted * 2 <= node.electorate() {
            if let Some(node) = self.node_mut(name) {
                node.current_epoch = epoch;
            }
            return false;
        }
        self.promote(name, &primary, epoch);
        true
    }

    fn voter(&self, name: &str, id: &NodeId, ip: &str) -> Option<String> {
        let pod = self.at(ip)?;
        let votes = |node: &&Node| node.id == *id && node.role == Role::Primary && !node.slots.is_empty();
        pod.node().filter(votes).filter(|_| self.reachable(name, &pod.name)).map(|node| node.pod.clone())
    }

    fn vote(&mut self, voter: &str, candidate: &Node, primary: &NodeId, epoch: u64, forced: bool) -> bool {
        let (now, timeout) = (self.now, self.node_timeout);
        let Some(node) = self.node_mut(voter) else { return false };
        let Some(dead) = node.peers.get(primary) else { return false };
        // A forced election asks them again at once.
        let recently = !forced && node.voted_at.get(primary).is_some_and(|at| now < at + 2 * timeout);
        let known = node.peers.contains_key(&candidate.id);
        let grants = known && node.voted_epoch < epoch && !recently && (forced || dead.failing);
        if grants {
            node.voted_epoch = epoch;
            node.voted_at.insert(primary.clone(), now);
        }
        node.current_epoch = node.current_epoch.max(epoch);
        grants
    }

    pub(crate) fn promote(&mut self, name: &str, primary: &NodeId, epoch: u64) {
        let replication_id = self.chance.u64(..);
        let Some(node) = self.node_mut(name) else { return };
        if let Some(dead) = node.peers.get_mut(primary) {
            node.slots = std::mem::take(&mut dead.slots);
        }
        (node.role, node.primary, node.link_up) = (Role::Primary, None, false);
        (node.config_epoch, node.current_epoch) = (epoch, epoch);
        (node.second_replication_id, node.replication_id) = (node.replication_id, replication_id);
        (node.election_at, node.syncing_until) = (None, None);
    }
}

/// A replica whose primary has failed with slots.
fn orphaned(node: &Node) -> bool {
    let primary = node.primary.as_ref().and_then(|id| node.peers.get(id));
    node.role == Role::Replica && primary.is_some_and(|peer| peer.failing && !peer.slots.is_empty())
}

/// Valkey lets no replica stand for election by itself whose data is too old; one that never followed since its start has none of
/// a known age.
fn fresh(node: &Node, now: u64) -> bool {
    node.link_up || node.link_lost_at.is_some_and(|lost| now < lost + OLDEST)
}
