//! The sidecar beside each Valkey: shows `sidecar_rules` what the real one would see, and does what they decide. In memory.

use crate::node::{Node, address};
use crate::pod::{Disk, Pod, Process, Waiting};
use crate::world::World;
use planner::nodes::Start as Ordered;
use sidecar_rules::boot::{
    CopyState, Data, Decision, Facts, Past, PastNode, Peer, PeerAnswer, Start, better_copy, decide,
};
use sidecar_rules::handover::{AttachedReplica, CandidateState, Standing, may_take_over};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};
use topology::{ClusterNodes, NodeId, Role};

/// An order is in force for as long as the operator waits for its answer; here it is answered as if that time had passed.
const ORDER_LASTS: u64 = 2_000;

impl World {
    pub(crate) fn boot(&mut self, name: &str) {
        let waiting = Waiting { since: self.now, answers: BTreeMap::new(), reason: String::new() };
        let Some(pod) = self.pods.get_mut(name) else { return };
        (pod.sidecar, pod.process) = (true, Process::Gate(waiting));
        drop(self.guard(name, None));
    }

    pub(crate) fn watch_gates(&mut self) {
        let waits = |pod: &&Pod| matches!(pod.process, Process::Gate(_));
        let names: Vec<String> = self.pods.values().filter(waits).map(|pod| pod.name.clone()).collect();
        for name in names {
            self.ask_peers(&name);
            drop(self.guard(&name, None));
        }
    }

    /// Starts a waiting Valkey, or says why not.
    fn guard(&mut self, name: &str, ordered: Option<Start>) -> Result<(), String> {
        let Some(facts) = self.pods.get(name).and_then(|pod| self.facts(pod, ordered)) else { return Ok(()) };
        let decision = decide(&facts);
        let Some(pod) = self.pods.get_mut(name) else { return Ok(()) };
        match (decision, &mut pod.process) {
            (Decision::Open { start, concede, .. }, _) => {
                prepare(&mut pod.disk, start, concede);
                self.start(name);
                Ok(())
            }
            (Decision::Wait { reason }, Process::Gate(waiting)) => {
                waiting.reason.clone_from(&reason);
                Err(reason)
            }
            (Decision::Wait { reason }, _) => Err(reason),
        }
    }

    /// `None` when its Valkey does not wait.
    fn facts(&self, pod: &Pod, ordered: Option<Start>) -> Option<Facts> {
        let Process::Gate(waiting) = &pod.process else { return None };
        let waited = self.now - waiting.since;
        Some(Facts {
            past: past(pod),
            data: if pod.disk.data.is_some() { Data::Journal } else { Data::Nothing },
            complete_until: None,
            ended: pod.disk.ended.map(|at| SystemTime::UNIX_EPOCH + Duration::from_millis(at)),
            clean_stop: false,
            answers: waiting.answers.clone(),
            asked: Duration::from_millis(if ordered.is_some() { waited + ORDER_LASTS } else { waited }),
            ordered,
            waited: Duration::from_millis(waited),
            patience: Duration::from_millis(3 * self.node_timeout),
        })
    }

    /// A replica that has what a waiting node would not load.
    pub(crate) fn better_copy(&self, pod: &Pod) -> Option<NodeId> {
        better_copy(&self.facts(pod, None)?).cloned()
    }

    /// What a peer said stays known when it falls silent.
    fn ask_peers(&mut self, name: &str) {
        let answers = self.pods.get(name).map(|pod| self.answers(pod)).unwrap_or_default();
        if let Some(Process::Gate(waiting)) = self.pods.get_mut(name).map(|pod| &mut pod.process) {
            waiting.answers.extend(answers);
        }
    }

    fn answers(&self, pod: &Pod) -> Vec<(NodeId, PeerAnswer)> {
        let past = past(pod);
        let answer = |peer: &Peer, was: &PastNode| {
            let node = self.answering(pod, was, peer)?;
            Some((peer.id.clone(), PeerAnswer::of(was, &node.cluster_nodes(), copy_state(node))))
        };
        let asked = past.node().into_iter().flat_map(|was| was.peers.iter().map(move |peer| (peer, was)));
        asked.filter_map(|(peer, was)| answer(peer, was)).collect()
    }

    /// The peer where it was, or where its name leads now.
    fn answering(&self, pod: &Pod, was: &PastNode, peer: &Peer) -> Option<&Node> {
        let there = peer.address.and_then(|address| self.at(&address.ip().to_string()));
        let named = peer.hostname.as_ref().and_then(|name| self.pods.get(name.split('.').next()?));
        let mut nodes = [there, named].into_iter().flatten().filter_map(Pod::node);
        nodes.find(|node| {
            let concerns = |myself| was.is_peer(peer, myself) || PastNode::is_replaced(peer, myself);
            node.cluster_nodes().myself().is_some_and(concerns) && self.reachable(&pod.name, &node.pod)
        })
    }

    /// What the operator's order to start comes to.
    pub(crate) fn open_gate(&mut self, name: &str, start: Ordered) -> Result<(), String> {
        let start = match start {
            Ordered::AsIs => Start::AsIs,
            Ordered::Fresh => Start::Fresh,
        };
        self.ask_peers(name);
        self.guard(name, Some(start))
    }

    /// What a primary does before its pod ends: its best replica takes over with its consent. False without one.
    pub fn hand_over(&mut self, name: &str) -> bool {
        let Some(node) = self.node(name) else { return false };
        let standing = Standing::of(node.role == Role::Replica, &node.cluster_nodes(), &self.attached(node));
        let (id, epoch) = (node.id.clone(), node.current_epoch + 1);
        let candidates = standing.candidates().unwrap_or_default();
        let mut able = candidates.iter().filter_map(|candidate| {
            let pod = self.at(&candidate.address.ip().to_string())?;
            let (node, stopping) = (pod.node()?, pod.ending.is_some());
            let state = CandidateState { is_replica: node.role == Role::Replica, link_up: node.link_up, stopping };
            let able = may_take_over(state).is_ok() && self.reachable(name, &node.pod);
            able.then(|| (node.pod.clone(), node.id.clone()))
        });
        let Some((heir, heir_id)) = able.next() else { return false };
        self.promote(&heir, &id, epoch);
        self.node_mut(name).map(|node| node.become_replica_of(&heir_id)).is_some()
    }

    /// The replicas that this primary streams to.
    fn attached(&self, primary: &Node) -> Vec<AttachedReplica> {
        let follow = self.nodes().filter(|node| node.primary.as_ref() == Some(&primary.id) && node.link_up);
        let attached = follow.filter_map(|node| {
            let online = node.syncing_until.is_none();
            Some(AttachedReplica { address: address(&node.ip)?, online, offset: node.offset, lag_seconds: Some(0) })
        });
        attached.collect()
    }

    /// What the node at this address sees, if it answers this pod.
    pub(crate) fn view_at(&self, name: &str, address: SocketAddr) -> Option<ClusterNodes> {
        let pod = self.at(&address.ip().to_string()).filter(|pod| self.reachable(name, &pod.name))?;
        pod.node().map(Node::cluster_nodes)
    }
}

/// What its nodes.conf says of the node, and who was attached to it at the end.
pub(crate) fn past(pod: &Pod) -> Past {
    let was = pod.disk.node.as_ref().and_then(|node| PastNode::of(&node.cluster_nodes()));
    let mut past = was.map_or(Past::Unknown, Past::Node);
    past.remember(&pod.disk.attached.iter().filter_map(|ip| address(ip)).collect::<Vec<SocketAddr>>());
    past
}

fn prepare(disk: &mut Disk, start: Start, concede: bool) {
    if start == Start::Fresh {
        *disk = Disk::default();
    }
    if let Some(node) = disk.node.as_mut().filter(|_| concede) {
        node.config_epoch = 0;
    }
}

fn copy_state(node: &Node) -> CopyState {
    CopyState {
        short: false,
        loading: node.syncing_until.is_some(),
        keys: u64::try_from(node.keys.len()).unwrap_or(u64::MAX),
        link_up: node.link_up,
        link_lost: node.link_lost_at.map(|lost| SystemTime::UNIX_EPOCH + Duration::from_millis(lost)),
    }
}
