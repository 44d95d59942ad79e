//! What must be true at all times: no acknowledged key is without a holder, and clusters do not mix. In memory.

use crate::node::slot;
use crate::pod::{Disk, Pod};
use crate::world::World;
use std::collections::BTreeSet;

impl World {
    fn holders(&self, key: u32, except: &[&str]) -> usize {
        let holds = |pod: &&Pod| {
            let disk = pod.node().is_none() && pod.disk.data.as_ref().is_some_and(|data| data.keys.contains(&key));
            disk || pod.node().is_some_and(|node| node.keys.contains(&key))
        };
        let volume = |(name, disk): &(&String, &Disk)| {
            !except.contains(&name.as_str()) && disk.data.as_ref().is_some_and(|data| data.keys.contains(&key))
        };
        let pods = self.pods.values().filter(|pod| !except.contains(&pod.name.as_str())).filter(holds).count();
        pods + self.volumes.iter().filter(volume).count()
    }

    /// A fault is about to hit these pods: keys only they hold may be lost with them, as replication is asynchronous.
    pub fn excuse(&mut self, pods: &[&str]) {
        let at_risk: Vec<u32> = self.acknowledged.iter().copied().filter(|key| self.holders(*key, pods) == 0).collect();
        self.acknowledged.retain(|key| !at_risk.contains(key));
    }

    /// A fault destroyed these keys itself.
    pub fn forgive(&mut self) {
        let lost: BTreeSet<u32> =
            self.acknowledged.iter().copied().filter(|key| self.holders(*key, &[]) == 0).collect();
        self.acknowledged.retain(|key| !lost.contains(key));
    }

    /// Acknowledged keys that nobody holds any more.
    pub fn lost(&self) -> Vec<u32> {
        self.acknowledged.iter().copied().filter(|key| self.holders(*key, &[]) == 0).collect()
    }

    /// Acknowledged keys that a client cannot read now.
    pub fn unreadable(&self) -> Vec<u32> {
        let readable = |key: u32| self.nodes().any(|node| node.owns(slot(key)) && node.keys.contains(&key));
        self.acknowledged.iter().copied().filter(|key| !readable(*key)).collect()
    }

    /// A node that knows a node of another cluster.
    pub fn mixed(&self) -> Option<String> {
        let cluster = |pod: &str| pod.rsplit_once('-').map(|(cluster, _)| cluster.to_owned());
        let mixes =
            |node: &&crate::node::Node| node.peers.values().any(|peer| cluster(&peer.pod) != cluster(&node.pod));
        self.nodes().find(mixes).map(|node| node.pod.clone())
    }

    /// Slots that two running nodes of one cluster call their own.
    pub fn contested(&self, cluster: &str) -> bool {
        let mut seen = topology::SlotSet::default();
        let prefix = format!("{cluster}-");
        self.nodes().filter(|node| node.pod.starts_with(&prefix)).any(|node| {
            let twice = seen.overlaps(&node.slots);
            seen = seen.union(&node.slots);
            twice
        })
    }
}
