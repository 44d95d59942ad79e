//! A pod with its volume and its process. Pure data.

use crate::node::Node;
use sidecar_rules::boot::PeerAnswer;
use std::collections::{BTreeMap, BTreeSet};
use topology::{NodeId, Position, Role};

/// What is left of a Valkey when its process is gone.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// nodes.conf: the node as it was, without its data.
    pub node: Option<Node>,
    /// The append-only file, when there is one.
    pub data: Option<Data>,
    /// Addresses of those that followed the process to its end.
    pub attached: Vec<String>,
    /// When the process last wrote to it.
    pub ended: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Data {
    pub keys: BTreeSet<u32>,
    pub offset: u64,
    pub replication_id: u64,
}

/// A Valkey at the boot gate, and what its sidecar has heard since.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub since: u64,
    pub answers: BTreeMap<NodeId, PeerAnswer>,
    pub reason: String,
}

#[derive(Clone, Debug)]
pub enum Process {
    /// The container starts at that time.
    Starting(u64),
    Gate(Waiting),
    Running(Box<Node>),
    /// It cannot be started.
    Broken,
}

/// The pod was deleted and ends at that time.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    pub at: u64,
    /// A user wants it to end; otherwise the operator does.
    pub by_hand: bool,
}

#[derive(Clone, Debug)]
pub struct Pod {
    pub name: String,
    pub uid: u64,
    pub ip: String,
    pub kubernetes_node: String,
    pub zone: String,
    pub process: Process,
    pub disk: Disk,
    /// Its sidecar runs: from the first start of the pod until it is replaced.
    pub sidecar: bool,
    /// How far its sidecar last saw its process come as a primary.
    pub last_position: Option<Position>,
    /// When the process was last seen to end.
    pub died_at: u64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// UID of the StatefulSet it belongs to.
    pub controller: Option<String>,
    /// Seconds since the epoch.
    pub created: i64,
    pub ending: Option<Ending>,
}

impl Pod {
    pub fn node(&self) -> Option<&Node> {
        match &self.process {
            Process::Running(node) => Some(node),
            _ => None,
        }
    }

    pub fn node_mut(&mut self) -> Option<&mut Node> {
        match &mut self.process {
            Process::Running(node) => Some(node),
            _ => None,
        }
    }

    /// What the sidecar does every second.
    pub fn look(&mut self) {
        if let Some(node) = self.node() {
            self.last_position = (node.role == Role::Primary).then(|| node.position());
        }
    }

    /// Ends the process; what it has written stays for as long as the volume does. `saves`: all that it held is written.
    pub fn stop(&mut self, saves: bool, attached: Vec<String>, now: u64) {
        if let Process::Running(node) = &self.process {
            let data = Data { keys: node.keys.clone(), offset: node.offset, replication_id: node.replication_id };
            self.disk.data = saves.then_some(data);
            self.disk.node = Some((**node).clone());
            (self.disk.attached, self.disk.ended) = (attached, Some(now));
        }
        self.died_at = now;
    }
}
