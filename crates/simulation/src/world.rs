//! Everything there is: pods of one or two clusters on one network, and the passing of time. In memory.

use crate::node::{Node, slot};
use crate::pod::{Data, Disk, Pod, Process};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use topology::{NodeId, Role};

/// One step of time, in milliseconds.
pub const TICK: u64 = 50;

/// How often a sidecar looks at its Valkey, in milliseconds.
const LOOK: u64 = 1_000;

/// One cluster to start with.
#[derive(Clone, Debug)]
pub struct Setup {
    pub name: &'static str,
    pub masters: usize,
    pub replicas: usize,
    /// Each pod has a volume that outlives it; otherwise an emptyDir, which ends with the pod, not with its containers.
    pub persistent: bool,
    /// Valkey writes an append-only file.
    pub saves: bool,
    pub kubernetes_nodes: usize,
    pub zones: usize,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { name: "cache", masters: 3, replicas: 1, persistent: true, saves: true, kubernetes_nodes: 3, zones: 0 }
    }
}

pub struct World {
    pub now: u64,
    pub pods: BTreeMap<String, Pod>,
    pub chance: fastrand::Rng,
    /// Kubernetes nodes that are cut off from all others.
    pub cut: BTreeSet<String>,
    /// Replicas that cannot follow, as with a wrong password, while everything else of them works.
    pub unlinked: BTreeSet<String>,
    pub node_timeout: u64,
    pub persistent: bool,
    pub saves: bool,
    /// Slots move key by key, and one move in so many breaks off half-way; 0 is never, and all at once.
    pub breaks_off: u32,
    /// Keys that were acknowledged and that nobody may lose.
    pub acknowledged: BTreeSet<u32>,
    /// Volumes whose pods are gone.
    pub volumes: BTreeMap<String, Disk>,
    /// A pod with slots that the operator let end.
    pub wrongly_ended: Option<String>,
    next: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            now: 0,
            pods: BTreeMap::new(),
            chance: fastrand::Rng::with_seed(seed),
            cut: BTreeSet::new(),
            unlinked: BTreeSet::new(),
            node_timeout: 5_000,
            persistent: true,
            saves: true,
            breaks_off: 0,
            acknowledged: BTreeSet::new(),
            volumes: BTreeMap::new(),
            wrongly_ended: None,
            next: 0,
        }
    }

    /// What a cluster's pods are like.
    pub fn prepare(&mut self, setup: &Setup) {
        (self.persistent, self.saves) = (setup.persistent, setup.saves);
    }

    pub fn add(&mut self, setup: &Setup) {
        self.prepare(setup);
        for ordinal in 0..setup.masters * (1 + setup.replicas) {
            self.add_pod(setup, ordinal);
        }
    }

    pub fn add_pod(&mut self, setup: &Setup, ordinal: usize) {
        let name = format!("{}-{ordinal}", setup.name);
        let kubernetes_node = format!("node-{}", ordinal % setup.kubernetes_nodes.max(1));
        let zone = if setup.zones == 0 { String::new() } else { format!("zone-{}", ordinal % setup.zones) };
        let (uid, ip) = (self.unique(), self.address());
        let process = Process::Starting(self.now);
        let pod = Pod {
            name: name.clone(),
            uid,
            ip,
            kubernetes_node,
            zone,
            process,
            disk: self.volumes.remove(&name).unwrap_or_default(),
            sidecar: false,
            last_position: None,
            died_at: self.now,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            controller: None,
            created: self.timestamp().as_second(),
            ending: None,
        };
        self.pods.insert(name, pod);
    }

    pub fn unique(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn address(&mut self) -> String {
        let number = self.unique();
        format!("10.0.{}.{}", number / 250, number % 250)
    }

    /// A new node id; made from chance, so that their order says nothing about the pods'.
    pub fn node_id(&mut self) -> NodeId {
        let digits = (0..5).map(|_| format!("{:08x}", self.chance.u32(..))).collect::<String>();
        NodeId::new(digits)
    }

    pub fn timestamp(&self) -> Timestamp {
        let milliseconds = i64::try_from(self.now).unwrap_or_default();
        Timestamp::from_millisecond(1_700_000_000_000 + milliseconds).unwrap_or_default()
    }

    pub fn tick(&mut self) {
        self.now += TICK;
        self.start_processes();
        self.gossip();
        self.elections();
        self.replicate();
        self.look();
    }

    /// Sidecars look at different moments.
    fn look(&mut self) {
        let now = self.now;
        let due = |pod: &&mut Pod| (now + 350 * pod.uid).is_multiple_of(LOOK);
        self.pods.values_mut().filter(due).for_each(Pod::look);
    }

    /// Whether the pods of these names can talk to each other.
    pub fn reachable(&self, one: &str, two: &str) -> bool {
        let node = |name: &str| self.pods.get(name).map(|pod| &pod.kubernetes_node);
        match (node(one), node(two)) {
            (Some(one), Some(two)) => one == two || !self.cut.contains(one) && !self.cut.contains(two),
            _ => false,
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.pods.values().filter_map(Pod::node)
    }

    pub fn node(&self, pod: &str) -> Option<&Node> {
        self.pods.get(pod).and_then(Pod::node)
    }

    pub fn node_mut(&mut self, pod: &str) -> Option<&mut Node> {
        self.pods.get_mut(pod).and_then(Pod::node_mut)
    }

    /// The pod whose Valkey answers at this address.
    pub fn at(&self, ip: &str) -> Option<&Pod> {
        self.pods.values().find(|pod| pod.ip == ip && pod.node().is_some())
    }

    /// A client writes a key to whoever serves its slot. False when nobody does.
    pub fn write(&mut self, cluster: &str, key: u32) -> bool {
        let prefix = format!("{cluster}-");
        let serves = |pod: &&Pod| pod.name.starts_with(&prefix) && pod.node().is_some_and(|node| node.owns(slot(key)));
        let owner = self.pods.values().filter(serves).max_by_key(|pod| pod.node().map(|node| node.config_epoch));
        let Some(name) = owner.filter(|pod| !self.cut.contains(&pod.kubernetes_node)).map(|pod| pod.name.clone())
        else {
            return false;
        };
        if let Some(node) = self.node_mut(&name) {
            node.keys.insert(key);
            node.offset += 1;
        }
        self.acknowledged.insert(key)
    }

    /// The container dies; it starts again after a moment, with what the pod's volume holds.
    pub fn kill(&mut self, pod: &str) {
        self.excuse(&[pod]);
        let (now, saves) = (self.now, self.saves);
        let attached = self.followers(pod);
        if let Some(pod) = self.pods.get_mut(pod) {
            pod.stop(saves, attached, now);
            pod.process = Process::Starting(now + 300);
        }
    }

    /// Addresses of those that follow a pod's node.
    pub(crate) fn followers(&self, pod: &str) -> Vec<String> {
        let Some(id) = self.node(pod).map(|node| &node.id) else { return Vec::new() };
        let follow = self.nodes().filter(|node| node.link_up && node.primary.as_ref() == Some(id));
        follow.map(|node| node.ip.clone()).collect()
    }

    /// The pod is deleted and comes back with a new address, with its volume or without.
    pub fn replace(&mut self, pod: &str, after: u64) {
        self.excuse(&[pod]);
        let (now, saves, persistent) = (self.now, self.saves, self.persistent);
        let (uid, ip, attached) = (self.unique(), self.address(), self.followers(pod));
        if let Some(pod) = self.pods.get_mut(pod) {
            pod.stop(saves, attached, now);
            if !persistent {
                pod.disk = Disk::default();
            }
            (pod.uid, pod.ip, pod.process, pod.sidecar) = (uid, ip, Process::Starting(now + after), false);
            pod.last_position = None;
        }
    }

    /// The pod is replaced and its volume is empty.
    pub fn empty_volume(&mut self, pod: &str) {
        self.replace(pod, 1_000);
        if let Some(pod) = self.pods.get_mut(pod) {
            pod.disk = Disk::default();
        }
        self.forgive();
    }

    fn start_processes(&mut self) {
        let due = |pod: &&Pod| matches!(pod.process, Process::Starting(at) if at <= self.now);
        let names: Vec<String> = self.pods.values().filter(due).map(|pod| pod.name.clone()).collect();
        for name in names {
            self.boot(&name);
        }
        self.watch_gates();
    }

    /// Starts the process with what is on the volume.
    pub fn start(&mut self, name: &str) {
        let (id, replication_id, now) = (self.node_id(), self.chance.u64(..), self.now);
        let Some(pod) = self.pods.get_mut(name) else { return };
        let fresh = Node::new(id, name, &pod.ip, replication_id, now);
        let mut node = pod.disk.node.clone().unwrap_or(fresh);
        let lost = Data { keys: BTreeSet::new(), offset: 0, replication_id };
        let data = pod.disk.data.clone().unwrap_or(lost);
        (node.keys, node.offset, node.replication_id) = (data.keys, data.offset, data.replication_id);
        (node.ip, node.started_at, node.syncing_until) = (pod.ip.clone(), now, None);
        (node.link_up, node.link_lost_at) = (false, None);
        for peer in node.peers.values_mut() {
            (peer.heard_at, peer.link_up, peer.possibly_failing) = (now, false, false);
        }
        (pod.process, pod.last_position) = (Process::Running(Box::new(node)), None);
    }

    pub fn primaries(&self) -> Vec<String> {
        let owner = |node: &&Node| node.role == Role::Primary && !node.slots.is_empty();
        self.nodes().filter(owner).map(|node| node.pod.clone()).collect()
    }
}
