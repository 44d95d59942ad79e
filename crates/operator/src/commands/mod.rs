//! The operator's hand on the nodes: gathers what sidecars said into what the planner sees, and carries its commands to them.
//! It chooses nothing; what it remembers is asked again by the next process.

mod memory;
mod send;
mod wire;
mod zones;

pub use send::CommandContext;
pub use zones::{Zone, Zones};

use crate::line::{Line, SidecarFacts};
use crate::runtime::{Memories, ObjectId, ObjectKey};
use k8s_openapi::jiff::Timestamp;
use memory::NodeMemory;
use planner::PodFacts;
use planner::nodes::{PodObservation, Valkey};
use std::collections::HashMap;
use std::sync::Arc;
use topology::Location;

/// By the pod's UID.
type Nodes = HashMap<String, NodeMemory>;

pub struct CommandDispatcher {
    line: Arc<Line>,
    clusters: Memories<Nodes>,
}

impl CommandDispatcher {
    pub fn new(line: Arc<Line>) -> Self {
        Self { line, clusters: Memories::default() }
    }

    /// What is known of a cluster's pods and their nodes now; pods that are gone are forgotten.
    pub fn seen(&self, cluster: &ObjectId, pods: &[PodFacts], zones: &Zones) -> Vec<PodObservation> {
        self.clusters.change(cluster, |nodes| {
            nodes.retain(|uid, memory| {
                let kept = memory.is_busy() || pods.iter().any(|pod| pod.uid == *uid);
                if !kept {
                    self.line.streams.release(uid);
                }
                kept
            });
            let now = Timestamp::now();
            let seen = pods.iter().map(|pod| {
                let sidecar = self.line.roster.of_pod(&pod.uid);
                // A pod that is left over from an earlier cluster of this name says nothing about this one.
                let sidecar = sidecar.filter(|facts| facts.pod.cluster_uid == cluster.uid);
                pod_seen(nodes.entry(pod.uid.clone()).or_default(), pod, zones.of(pod), (sidecar.as_deref(), now))
            });
            seen.collect()
        })
    }

    /// Lets the streams of a cluster go, once nothing is under way on them.
    pub fn rest(&self, cluster: &ObjectId, pods: &[PodFacts]) {
        let busy = |nodes: &mut Nodes| nodes.values().any(NodeMemory::is_busy);
        if !self.clusters.change_known(cluster, busy).unwrap_or_default() {
            pods.iter().for_each(|pod| self.line.streams.release(&pod.uid));
        }
    }

    /// Forgets a cluster that is no longer there, and lets its streams go.
    pub fn end(&self, cluster: &ObjectKey) {
        let nodes = self.clusters.end(cluster).unwrap_or_default();
        nodes.keys().for_each(|pod| self.line.streams.release(pod));
    }

    /// False when the pod is forgotten: an answer that comes after its cluster is gone brings neither back.
    fn change(&self, cluster: &ObjectId, pod_uid: &str, change: impl FnOnce(&mut NodeMemory)) -> bool {
        let changed = self.clusters.change_known(cluster, |nodes| nodes.get_mut(pod_uid).map(change).is_some());
        changed.unwrap_or_default()
    }
}

fn pod_seen(
    memory: &mut NodeMemory,
    pod: &PodFacts,
    zone: Zone,
    (sidecar, now): (Option<&SidecarFacts>, Timestamp),
) -> PodObservation {
    let connection = sidecar.filter(|facts| facts.connected).map(|facts| facts.presence);
    let zone_awaited = zone == Zone::Awaited;
    let zone = if let Zone::Known(zone) = zone { zone } else { None };
    PodObservation {
        name: pod.name.as_str().into(),
        uid: pod.uid.as_str().into(),
        ip: pod.ip.clone(),
        location: Location { node: pod.node.clone(), zone },
        zone_awaited,
        ready: pod.ready,
        terminating: pod.terminating,
        connected: connection.is_some(),
        last_answer: sidecar.filter(|facts| !facts.connected).and_then(|facts| memory.last_answer(facts, now)),
        valkey: sidecar.map_or(Valkey::Unknown, |facts| memory.valkey(facts, now)),
        last_position: sidecar.and_then(|facts| facts.beat.last_position.as_ref()).and_then(wire::position),
        // A clock that was set back would make what is old the newest for as long as it was set back.
        view: connection.and_then(|connection| memory.view(connection)).filter(|view| view.read_at <= now),
        under_way: memory.under_way.clone(),
        // What was answered before a lost connection counts for nothing.
        answer: memory.answer.clone().filter(|answer| connection.is_some() && answer.at <= now),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
