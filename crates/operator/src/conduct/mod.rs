//! The operator's hand on the nodes: gathers what sidecars said into what the planner sees, and carries its commands to them.
//! It chooses nothing; what it remembers is asked again by the next process.

mod memory;
mod send;
mod words;
mod zones;

pub use send::Errand;
pub use zones::Zones;

use crate::line::Line;
use memory::NodeMemory;
use orchestration::{PodSeen, Valkey};
use planner::PodFacts;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use topology::Location;

/// By the pod's UID.
type Nodes = HashMap<String, NodeMemory>;

pub struct Conductor {
    line: Arc<Line>,
    /// By the cluster's UID.
    clusters: Mutex<HashMap<String, Nodes>>,
}

impl Conductor {
    pub fn new(line: Arc<Line>) -> Self {
        Self { line, clusters: Mutex::default() }
    }

    /// What is known of a cluster's pods and their nodes now; pods that are gone are forgotten.
    pub fn seen(&self, cluster_uid: &str, pods: &[PodFacts], zones: Vec<Option<String>>) -> Vec<PodSeen> {
        let mut clusters = self.clusters();
        let nodes = clusters.entry(cluster_uid.to_owned()).or_default();
        nodes.retain(|uid, memory| memory.busy || pods.iter().any(|pod| pod.uid == *uid));
        let seen =
            pods.iter().zip(zones).map(|(pod, zone)| self.pod(nodes.entry(pod.uid.clone()).or_default(), pod, zone));
        seen.collect()
    }

    fn pod(&self, memory: &mut NodeMemory, pod: &PodFacts, zone: Option<String>) -> PodSeen {
        let sidecar = self.line.roster.of_pod(&pod.uid);
        let connection = sidecar.as_ref().filter(|facts| facts.connected).map(|facts| facts.presence);
        PodSeen {
            name: pod.name.as_str().into(),
            uid: pod.uid.as_str().into(),
            ip: pod.ip.clone(),
            location: Location { node: pod.node.clone(), zone },
            ready: pod.ready,
            terminating: pod.terminating,
            connected: connection.is_some(),
            valkey: sidecar.as_deref().map_or(Valkey::Unknown, |facts| memory.valkey(facts)),
            view: connection.and_then(|connection| memory.view(connection)),
            busy: memory.busy,
            // What was answered before a lost connection counts for nothing.
            answer: memory.answer.clone().filter(|_| connection.is_some()),
        }
    }

    /// Lets the streams of a cluster go, once nothing is under way on them.
    pub fn rest(&self, cluster_uid: &str, pods: &[PodFacts]) {
        let busy = |nodes: &Nodes| nodes.values().any(|memory| memory.busy);
        if !self.clusters().get(cluster_uid).is_some_and(busy) {
            pods.iter().for_each(|pod| self.line.commander.release(&pod.uid));
        }
    }

    /// Forgets clusters that are no longer there.
    pub fn keep_clusters(&self, uids: &[String]) {
        self.clusters().retain(|uid, _| uids.contains(uid));
    }

    fn change(&self, cluster_uid: &str, pod_uid: &str, change: impl FnOnce(&mut NodeMemory)) {
        change(self.clusters().entry(cluster_uid.to_owned()).or_default().entry(pod_uid.to_owned()).or_default());
    }

    fn clusters(&self) -> MutexGuard<'_, HashMap<String, Nodes>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
