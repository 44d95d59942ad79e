//! The sidecar beside each Valkey: the boot gate, and commands with the refusals the real one has. In memory.

use crate::node::Node;
use crate::pod::{Pod, Process};
use crate::world::World;
use planner::nodes::{Action, FailoverMode, Outcome};
use topology::{NodeId, Role};

impl World {
    /// A primary with slots and replicas that did not hand over waits; all others start.
    pub(crate) fn boot(&mut self, name: &str) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(name) else { return };
        pod.sidecar = true;
        let risky = |node: &Node| {
            let replicas = node.peers.values().any(|peer| peer.primary.as_ref() == Some(&node.id));
            node.role == Role::Primary && !node.slots.is_empty() && (replicas || !pod.attached.is_empty())
        };
        if pod.disk.node.as_ref().is_some_and(risky) {
            pod.process = Process::Gate(now);
        } else {
            self.start(name);
        }
    }

    /// Opens when a peer says that another owns the slots now, or after a while when the data is there or no replica has any.
    pub(crate) fn watch_gates(&mut self) {
        let limit = 3 * self.node_timeout;
        let waiting = self.pods.values().filter_map(|pod| match pod.process {
            Process::Gate(since) => Some((pod, since)),
            _ => None,
        });
        let nothing_to_lose = |pod: &Pod| pod.disk.data.is_some() || self.replicas_are_empty(pod);
        let may =
            |(pod, since): &(&Pod, u64)| self.now > since + limit && nothing_to_lose(pod) || self.is_replaced(pod);
        let names: Vec<String> = waiting.filter(may).map(|(pod, _)| pod.name.clone()).collect();
        for name in names {
            self.start(&name);
        }
    }

    /// Every replica it knew answers that it has no keys, and none that it did not know has any.
    fn replicas_are_empty(&self, pod: &Pod) -> bool {
        let Some(was) = &pod.disk.node else { return false };
        let mut attached = pod.attached.iter().filter_map(|ip| self.at(ip)?.node());
        let holds = |node: &Node| node.primary.as_ref() == Some(&was.id) && !node.keys.is_empty();
        if attached.any(|node| holds(node) && self.reachable(&pod.name, &node.pod)) {
            return false;
        }
        let mut replicas = was.peers.iter().filter(|(_, peer)| peer.primary.as_ref() == Some(&was.id));
        replicas.all(|(id, peer)| {
            let node = self.at(&peer.ip).and_then(Pod::node).filter(|node| node.id == *id);
            node.is_some_and(|node| node.keys.is_empty() && self.reachable(&pod.name, &node.pod))
        })
    }

    fn is_replaced(&self, pod: &Pod) -> bool {
        let Some(was) = &pod.disk.node else { return false };
        let peers = was.peers.iter().filter_map(|(id, peer)| self.at(&peer.ip)?.node().filter(|node| node.id == *id));
        let mut reached = peers.filter(|node| self.reachable(&pod.name, &node.pod));
        reached.any(|node| {
            let newer = |epoch: u64| epoch > was.config_epoch;
            let theirs = node.peers.iter().filter(|(id, peer)| **id != was.id && newer(peer.config_epoch));
            let mut owned = theirs.fold(topology::SlotSet::default(), |all, (_, peer)| all.union(&peer.slots));
            if newer(node.config_epoch) {
                owned = owned.union(&node.slots);
            }
            was.slots.difference(&owned).is_empty()
        })
    }

    pub fn execute(&mut self, name: &str, action: &Action) -> Outcome {
        if let Action::OpenGate(..) = action {
            return self.open_gate(name);
        }
        let now = self.now;
        let Some(node) = self.node_mut(name) else { return Outcome::Failed("Valkey does not answer".to_owned()) };
        match action {
            Action::Probe | Action::ReadView | Action::OpenGate(..) => Outcome::Done,
            Action::Meet(peers) => {
                node.meeting.extend(peers.iter().map(|peer| (peer.ip.clone(), now + 5_000)));
                Outcome::Done
            }
            Action::AddSlots(slots) => add_slots(node, slots),
            Action::SetConfigEpoch(epoch) => set_epoch(node, *epoch),
            Action::Replicate(id) => replicate(node, id),
            Action::Failover(mode) => self.fail_over(name, *mode),
            Action::Forget(ids) => self.forget(name, ids),
        }
    }

    fn open_gate(&mut self, name: &str) -> Outcome {
        match self.pods.get(name).map(|pod| &pod.process) {
            Some(Process::Gate(_)) => {
                self.start(name);
                Outcome::Done
            }
            _ => Outcome::Done,
        }
    }

    fn fail_over(&mut self, name: &str, mode: FailoverMode) -> Outcome {
        match self.node(name).map(|node| node.role) {
            Some(Role::Primary) => Outcome::Done,
            _ if mode == FailoverMode::Takeover => Outcome::Refused("never in these tests".to_owned()),
            _ if self.elect(name, true) => Outcome::Done,
            _ => Outcome::Failed("no majority voted for it".to_owned()),
        }
    }

    /// What one node forgets, all others do that hear of it.
    fn forget(&mut self, name: &str, ids: &[NodeId]) -> Outcome {
        let until = self.now + 60_000;
        let Some(node) = self.node(name) else { return Outcome::Failed("Valkey does not answer".to_owned()) };
        let unsafe_id = |id: &&NodeId| {
            **id == node.id
                || node.primary.as_ref() == Some(*id)
                || node.peers.get(*id).is_some_and(|peer| !peer.slots.is_empty())
        };
        if ids.iter().any(|id| unsafe_id(&id)) {
            return Outcome::Refused("it owns slots or is needed".to_owned());
        }
        let listeners: Vec<String> = self.nodes().map(|node| node.pod.clone()).collect();
        for listener in listeners.iter().filter(|listener| self.reachable(name, listener)).cloned().collect::<Vec<_>>()
        {
            let Some(node) = self.node_mut(&listener) else { continue };
            for id in ids.iter().filter(|id| node.primary.as_ref() != Some(id) && node.id != **id) {
                if node.peers.remove(id).is_some() {
                    node.forgotten.insert(id.clone(), until);
                }
            }
        }
        Outcome::Done
    }
}

fn add_slots(node: &mut Node, slots: &topology::SlotSet) -> Outcome {
    if node.role == Role::Replica {
        return Outcome::Refused("it is a replica".to_owned());
    }
    if node.peers.values().any(|peer| peer.slots.overlaps(slots)) {
        return Outcome::Failed("slot is already busy".to_owned());
    }
    node.slots = node.slots.union(slots);
    Outcome::Done
}

fn set_epoch(node: &mut Node, epoch: u64) -> Outcome {
    if node.config_epoch == epoch {
        return Outcome::Done;
    }
    if !node.peers.is_empty() || node.config_epoch != 0 {
        return Outcome::Failed("a node that knows others cannot be given an epoch".to_owned());
    }
    (node.config_epoch, node.current_epoch) = (epoch, node.current_epoch.max(epoch));
    Outcome::Done
}

fn replicate(node: &mut Node, id: &NodeId) -> Outcome {
    if node.primary.as_ref() == Some(id) {
        return Outcome::Done;
    }
    if !node.slots.is_empty() || node.role == Role::Primary && !node.keys.is_empty() {
        return Outcome::Refused("it owns slots or holds keys".to_owned());
    }
    if node.peers.get(id).is_none_or(|peer| peer.role != Role::Primary) {
        return Outcome::Failed("unknown node, or no primary".to_owned());
    }
    node.become_replica_of(id);
    Outcome::Done
}
