//! The operator's commands on one node, after `sidecar_rules` had no objection. In memory.

use crate::node::{Node, address};
use crate::pod::Pod;
use crate::world::World;
use planner::nodes::{Action, FailoverMode, Outcome, Peer};
use sidecar_rules::commands::failover::{self, Mode};
use sidecar_rules::commands::replicate::{self, Held};
use sidecar_rules::commands::{Need, Objection, Presence, add_slots, forget, meet, set_config_epoch};
use topology::{ClusterNode, ClusterNodes, NodeId, Position, Role, SlotSet};

/// How long a node that was met is tried.
const MEETING: u64 = 5_000;
/// How long a forgotten node stays forgotten.
const FORGOTTEN: u64 = 60_000;

type Work = Result<(), Outcome>;

impl World {
    pub fn execute(&mut self, name: &str, action: &Action) -> Outcome {
        match self.carry_out(name, action) {
            Ok(()) => Outcome::Done,
            Err(outcome) => outcome,
        }
    }

    fn carry_out(&mut self, name: &str, action: &Action) -> Work {
        if let Action::OpenGate(start, _) = action {
            return self.open_gate(name, *start).map_err(Outcome::Refused);
        }
        let node = self.node(name).ok_or_else(|| Outcome::Failed("Valkey does not answer".to_owned()))?.clone();
        match action {
            Action::Probe | Action::ReadView | Action::OpenGate(..) => Ok(()),
            Action::Meet(peers) => self.meet(&node, peers),
            Action::AddSlots(slots) => self.add_slots(&node, slots),
            Action::SetConfigEpoch(epoch) => self.set_config_epoch(&node, *epoch),
            Action::Replicate(id) => self.replicate_from(&node, id),
            Action::Failover(mode, at_least) => self.fail_over(&node, *mode, at_least.as_ref()),
            Action::Forget(ids) => self.forget(&node, ids),
            Action::MigrateSlots(slots, to, replicas) => self.migrate(&node, slots, to, *replicas),
            Action::Leave => self.leave(&node),
        }
    }

    fn change(&mut self, node: &Node, change: impl FnOnce(&mut Node)) -> Work {
        self.node_mut(&node.pod).map(change).ok_or_else(|| Outcome::Failed("Valkey is gone".to_owned()))
    }

    fn meet(&mut self, node: &Node, peers: &[Peer]) -> Work {
        let nodes = node.cluster_nodes();
        let mut strange = Vec::new();
        for peer in peers {
            let at = address(&peer.ip).ok_or_else(|| Outcome::Refused(format!("{} is no address", peer.ip)))?;
            if !meet::knows(&nodes, at) {
                let theirs = self.view_at(&node.pod, at);
                let replaced = self.replaced(&node.pod, &nodes, theirs.as_ref());
                meet::check(&nodes, at, Some(&peer.node_id), theirs.as_ref(), &replaced).map_err(outcome)?;
                strange.push(peer.ip.clone());
            }
        }
        let until = self.now + MEETING;
        self.change(node, |node| node.meeting.extend(strange.into_iter().map(|ip| (ip, until))))
    }

    /// The nodes that one side misses and whose pods run others now.
    fn replaced(&self, name: &str, ours: &ClusterNodes, theirs: Option<&ClusterNodes>) -> Vec<NodeId> {
        let suspects = theirs.map(|theirs| meet::suspects(ours, theirs)).unwrap_or_default();
        suspects.iter().filter(|node| self.is_replaced(name, node)).map(|node| node.id.clone()).collect()
    }

    /// The pod of its name runs another node, as far as this pod can see.
    fn is_replaced(&self, name: &str, node: &ClusterNode) -> bool {
        let pod = node.hostname.as_deref().and_then(|host| self.pods.get(host.split('.').next()?));
        let there = pod.and_then(|pod| self.view_at(name, address(&pod.ip)?));
        there.is_some_and(|there| meet::is_replaced(node, &there))
    }

    fn add_slots(&mut self, node: &Node, wanted: &SlotSet) -> Work {
        let missing = add_slots::missing(&node.cluster_nodes(), wanted).map_err(outcome)?;
        self.change(node, |node| node.slots = node.slots.union(&missing))
    }

    fn set_config_epoch(&mut self, node: &Node, epoch: u64) -> Work {
        let known_nodes = u64::try_from(node.peers.len() + 1).unwrap_or(u64::MAX);
        match set_config_epoch::check(epoch, node.config_epoch, known_nodes).map_err(outcome)? {
            Need::Nothing => Ok(()),
            Need::Change => self.change(node, |node| {
                (node.config_epoch, node.current_epoch) = (epoch, node.current_epoch.max(epoch));
            }),
        }
    }

    fn replicate_from(&mut self, node: &Node, primary: &NodeId) -> Work {
        let keys = u64::try_from(node.keys.len()).unwrap_or(u64::MAX);
        let held = Held { keys, link_up: node.link_up };
        let former = self.ask_primary(node);
        if replicate::check(&node.cluster_nodes(), primary, held, former.as_ref()).map_err(outcome)? == Need::Nothing {
            return Ok(());
        }
        if node.peers.get(primary).is_none_or(|peer| peer.role != Role::Primary) {
            return Err(Outcome::Failed("this node does not know it as a primary".to_owned()));
        }
        self.change(node, |node| node.become_replica_of(primary))
    }

    fn fail_over(&mut self, node: &Node, mode: FailoverMode, at_least: Option<&Position>) -> Work {
        let nodes = node.cluster_nodes();
        if failover::need(&nodes).map_err(outcome)? == Need::Nothing {
            return Ok(());
        }
        let mode = match mode {
            FailoverMode::Coordinated => Mode::Coordinated,
            FailoverMode::Force => Mode::Force,
            FailoverMode::Takeover => Mode::Takeover,
        };
        let primary = failover::primary_to_ask(&nodes, mode);
        let presence = primary.map_or(Presence::Gone, |primary| self.presence(node, primary));
        failover::check(&nodes, mode, &presence).map_err(outcome)?;
        let has_all = |needed: &Position| failover::has_all(&node.position(), needed, node.link_up);
        if !at_least.map_or(Ok(true), has_all).map_err(outcome)? {
            return Err(Outcome::Failed("what its primary sent has not all come in".to_owned()));
        }
        match (mode, &node.primary) {
            (Mode::Takeover, Some(primary)) => {
                self.promote(&node.pod, primary, node.current_epoch + 1);
                Ok(())
            }
            _ if self.elect(&node.pod, true) => Ok(()),
            _ => Err(Outcome::Failed("no majority voted for it".to_owned())),
        }
    }

    /// What one node forgets, all others do that hear of it.
    fn forget(&mut self, node: &Node, ids: &[NodeId]) -> Work {
        let nodes = node.cluster_nodes();
        for gone in forget::known(&nodes, ids).map_err(outcome)? {
            forget::check(&nodes, gone, &self.presence(node, gone)).map_err(outcome)?;
        }
        let until = self.now + FORGOTTEN;
        let listeners: Vec<String> =
            self.nodes().map(|node| node.pod.clone()).filter(|other| self.reachable(&node.pod, other)).collect();
        for listener in listeners {
            let Some(node) = self.node_mut(&listener) else { continue };
            for id in ids.iter().filter(|id| node.primary.as_ref() != Some(id) && node.id != **id) {
                node.moves.retain(|open| open.other != *id);
                if node.peers.remove(id).is_some() {
                    node.forgotten.insert(id.clone(), until);
                }
            }
        }
        Ok(())
    }

    /// Whether a known node is where it is known to be.
    fn presence(&self, node: &Node, other: &ClusterNode) -> Presence {
        let Some(address) = other.address else { return Presence::Gone };
        let ip = address.ip().to_string();
        let there = self.pods.values().find(|pod| pod.ip == ip && self.reachable(&node.pod, &pod.name));
        match there.map(Pod::node) {
            Some(Some(found)) if found.id == other.id => Presence::Serves(found.cluster_nodes()),
            Some(_) => Presence::Gone,
            None if self.is_replaced(&node.pod, other) => Presence::Gone,
            None => Presence::OutOfReach,
        }
    }
}

pub(crate) fn outcome(objection: Objection) -> Outcome {
    match objection {
        Objection::Invalid(text) | Objection::Unsafe(text) => Outcome::Refused(text),
        Objection::NotNow(text) => Outcome::Failed(text),
    }
}
