//! Introductions, pings, rumours, slot claims and failure detection. In memory.

use crate::node::{Node, Peer};
use crate::world::{TICK, World};
use topology::{NodeId, Role};

/// What a ping says of its sender.
struct Words {
    id: NodeId,
    ip: String,
    role: Role,
    primary: Option<NodeId>,
    slots: topology::SlotSet,
    config_epoch: u64,
    current_epoch: u64,
}

impl Words {
    fn of(node: &Node) -> Words {
        Words {
            id: node.id.clone(),
            ip: node.ip.clone(),
            role: node.role,
            primary: node.primary.clone(),
            slots: node.slots.clone(),
            config_epoch: node.config_epoch,
            current_epoch: node.current_epoch,
        }
    }
}

impl World {
    pub(crate) fn gossip(&mut self) {
        self.introductions();
        let names: Vec<String> = self.nodes().map(|node| node.pod.clone()).collect();
        for name in &names {
            self.pings(name);
        }
        for name in &names {
            self.detect(name);
        }
    }

    /// A node that was met adds whoever answers at the address, and is added by him.
    fn introductions(&mut self) {
        let now = self.now;
        let meetings: Vec<(String, String)> =
            self.nodes().flat_map(|node| node.meeting.keys().map(|ip| (node.pod.clone(), ip.clone()))).collect();
        for (name, ip) in meetings {
            let other = self.at(&ip).map(|pod| pod.name.clone()).filter(|other| self.reachable(&name, other));
            if let Some(other) = other.filter(|other| *other != name) {
                let known = self.acquaint(&name, &other) && self.acquaint(&other, &name);
                if let Some(node) = self.node_mut(&name).filter(|_| known) {
                    node.meeting.remove(&ip);
                }
            }
        }
        for node in self.pods.values_mut().filter_map(|pod| pod.node_mut()) {
            node.meeting.retain(|_, until| *until > now);
            node.forgotten.retain(|_, until| *until > now);
        }
    }

    fn acquaint(&mut self, name: &str, other: &str) -> bool {
        let now = self.now;
        let Some(seen) = self.node(other).map(|node| (node.id.clone(), portrait(node, now))) else { return false };
        let Some(node) = self.node_mut(name) else { return false };
        if node.forgotten.contains_key(&seen.0) {
            return false;
        }
        match node.peers.get_mut(&seen.0) {
            Some(peer) => peer.ip = seen.1.ip,
            None => drop(node.peers.insert(seen.0, seen.1)),
        }
        true
    }

    /// Each link carries a ping about every other tick.
    fn pings(&mut self, name: &str) {
        let Some(node) = self.node(name) else { return };
        let targets: Vec<(NodeId, String)> =
            node.peers.iter().map(|(id, peer)| (id.clone(), peer.ip.clone())).collect();
        for (id, ip) in targets {
            if self.chance.bool() {
                self.ping(name, &id, &ip);
            }
        }
    }

    fn ping(&mut self, name: &str, id: &NodeId, ip: &str) {
        let target =
            self.at(ip).filter(|pod| pod.node().is_some_and(|node| node.id == *id)).map(|pod| pod.name.clone());
        let target = target.filter(|target| self.reachable(name, target));
        let Some(target) = target else {
            if let Some(peer) = self.node_mut(name).and_then(|node| node.peers.get_mut(id)) {
                peer.link_up = false;
            }
            return;
        };
        self.hear(&target, name);
        self.hear(name, &target);
        self.rumours(&target, name);
    }

    /// The listener takes note of what the speaker says of himself, if he knows him.
    fn hear(&mut self, listener: &str, speaker: &str) {
        let (now, timeout) = (self.now, self.node_timeout);
        let Some(words) = self.node(speaker).map(Words::of) else { return };
        let Some(node) = self.node_mut(listener) else { return };
        let Some(peer) = node.peers.get_mut(&words.id) else { return };
        (peer.ip, peer.heard_at, peer.link_up, peer.possibly_failing) = (words.ip.clone(), now, true, false);
        (peer.role, peer.primary) = (words.role, words.primary.clone());
        if peer.failing && (peer.slots.is_empty() || now > peer.failed_at + 2 * timeout) {
            peer.failing = false;
        }
        if words.role == Role::Replica {
            peer.slots = topology::SlotSet::default();
        }
        peer.config_epoch = words.config_epoch;
        node.current_epoch = node.current_epoch.max(words.current_epoch);
        collide(node, &words);
        claim(node, &words.id, &words.slots, words.config_epoch);
        follow_the_primary_of_its_primary(node);
        let stale = stale_claims(node, &words);
        if let Some(speaker) = self.node_mut(speaker) {
            for (id, slots, epoch) in stale {
                if speaker.peers.contains_key(&id) {
                    claim(speaker, &id, &slots, epoch);
                }
            }
        }
    }

    /// The listener learns of nodes the speaker knows, failed ones included; of their slots only they themselves tell.
    fn rumours(&mut self, speaker: &str, listener: &str) {
        let now = self.now;
        let Some(node) = self.node(speaker) else { return };
        let count = node.peers.len().max(1);
        let picks: Vec<usize> = (0..3).map(|_| self.chance.usize(..count)).collect();
        let Some(node) = self.node(speaker) else { return };
        let named = node.peers.iter().enumerate().filter(|(index, _)| picks.contains(index));
        let picked: Vec<(NodeId, Peer)> = named.map(|(_, (id, peer))| (id.clone(), peer.clone())).collect();
        let Some(node) = self.node_mut(listener) else { return };
        for (id, mut peer) in picked {
            let news = id != node.id && !node.peers.contains_key(&id) && !node.forgotten.contains_key(&id);
            if news {
                (peer.heard_at, peer.link_up) = (now, false);
                (peer.slots, peer.config_epoch) = (topology::SlotSet::default(), 0);
                node.peers.insert(id, peer);
            }
        }
    }

    /// Silence makes suspicion; suspicion of most primaries makes failure.
    fn detect(&mut self, name: &str) {
        let (now, timeout) = (self.now, self.node_timeout);
        let Some(node) = self.node_mut(name) else { return };
        for peer in node.peers.values_mut() {
            peer.possibly_failing = !peer.failing && now > peer.heard_at + timeout;
        }
        let suspects: Vec<NodeId> =
            node.peers.iter().filter(|(_, peer)| peer.possibly_failing).map(|(id, _)| id.clone()).collect();
        for id in suspects {
            let votes = self.suspicions(name, &id);
            let Some(node) = self.node_mut(name) else { return };
            if votes * 2 > node.electorate()
                && let Some(peer) = node.peers.get_mut(&id)
            {
                (peer.failing, peer.possibly_failing, peer.failed_at) = (true, false, now);
            }
        }
    }

    /// Primaries with slots that this node hears and that suspect the other, itself included.
    fn suspicions(&self, name: &str, id: &NodeId) -> usize {
        let Some(node) = self.node(name) else { return 0 };
        let suspects = |node: &Node| node.peers.get(id).is_some_and(|peer| peer.failing || peer.possibly_failing);
        let votes = |node: &Node| node.role == Role::Primary && !node.slots.is_empty() && suspects(node);
        let fresh = |peer: &Peer| self.now < peer.heard_at + 40 * TICK;
        let heard = node.peers.values().filter(|peer| fresh(peer)).filter_map(|peer| self.at(&peer.ip)?.node());
        heard.filter(|other| votes(other)).count() + usize::from(votes(node))
    }
}

/// What a node sees when it meets another.
fn portrait(node: &Node, now: u64) -> Peer {
    Peer {
        ip: node.ip.clone(),
        role: node.role,
        primary: node.primary.clone(),
        slots: topology::SlotSet::default(),
        config_epoch: node.config_epoch,
        failing: false,
        possibly_failing: false,
        failed_at: 0,
        heard_at: now,
        link_up: true,
        pod: node.pod.clone(),
    }
}

/// Two primaries with the same epoch: the one with the smaller id takes a new one.
fn collide(node: &mut Node, words: &Words) {
    let both = node.role == Role::Primary && words.role == Role::Primary && node.config_epoch == words.config_epoch;
    if both && node.id < words.id {
        node.current_epoch += 1;
        node.config_epoch = node.current_epoch;
    }
}

/// Slots go to the claimant with the higher epoch. Who loses all of his, to one that has nothing else, was succeeded and becomes its replica.
fn claim(node: &mut Node, id: &NodeId, slots: &topology::SlotSet, epoch: u64) {
    if slots.is_empty() || *id == node.id {
        return;
    }
    let mut won = slots.clone();
    let mut beaten: Vec<NodeId> = Vec::new();
    let succeeds = |before: &topology::SlotSet| slots.difference(before).is_empty();
    for (other, peer) in node.peers.iter_mut().filter(|(other, peer)| *other != id && peer.slots.overlaps(slots)) {
        if peer.config_epoch < epoch {
            let left = peer.slots.difference(slots);
            if left.is_empty() && succeeds(&peer.slots) {
                beaten.push(other.clone());
            }
            peer.slots = left;
        } else {
            won = won.difference(&peer.slots);
        }
    }
    let mut follow =
        node.role == Role::Replica && node.primary.as_ref().is_some_and(|primary| beaten.contains(primary));
    if node.slots.overlaps(slots) {
        if node.config_epoch < epoch {
            let left = node.slots.difference(slots);
            follow |= left.is_empty() && succeeds(&node.slots);
            node.slots = left;
        } else {
            won = won.difference(&node.slots);
        }
    }
    if let Some(peer) = node.peers.get_mut(id) {
        peer.slots = peer.slots.union(&won);
        peer.config_epoch = epoch;
    }
    if follow {
        node.become_replica_of(id);
    }
}

/// Slots the speaker claims that the listener knows another, newer owner of.
fn stale_claims(node: &Node, words: &Words) -> Vec<(NodeId, topology::SlotSet, u64)> {
    let newer = |epoch: u64, slots: &topology::SlotSet| epoch > words.config_epoch && slots.overlaps(&words.slots);
    let peers = node.peers.iter().filter(|(id, peer)| **id != words.id && newer(peer.config_epoch, &peer.slots));
    let mut claims: Vec<_> = peers.map(|(id, peer)| (id.clone(), peer.slots.clone(), peer.config_epoch)).collect();
    if node.role == Role::Primary && newer(node.config_epoch, &node.slots) {
        claims.push((node.id.clone(), node.slots.clone(), node.config_epoch));
    }
    claims
}

/// A replica of a replica follows that one's primary, as Valkey has it ("I'm a sub-replica!").
fn follow_the_primary_of_its_primary(node: &mut Node) {
    let primary = node.primary.as_ref().filter(|_| node.role == Role::Replica).and_then(|id| node.peers.get(id));
    let next = primary.filter(|peer| peer.role == Role::Replica).and_then(|peer| peer.primary.clone());
    if let Some(next) = next.filter(|id| *id != node.id && node.peers.contains_key(id)) {
        node.become_replica_of(&next);
    }
}
