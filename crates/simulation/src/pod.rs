//! A pod with its volume and its process. Pure data.

use crate::node::Node;
use std::collections::BTreeSet;

/// What is left of a Valkey when its process is gone.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// nodes.conf: the node as it was, without its data.
    pub node: Option<Node>,
    /// The dataset, when it was persisted.
    pub data: Option<Data>,
}

#[derive(Clone, Debug)]
pub struct Data {
    pub keys: BTreeSet<u32>,
    pub offset: u64,
    pub replication_id: u64,
}

#[derive(Clone, Debug)]
pub enum Process {
    /// The container starts at that time.
    Starting(u64),
    /// It waits at the boot gate since then.
    Gate(u64),
    Running(Box<Node>),
    /// It cannot be started.
    Broken,
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
    /// When the process was last seen to end.
    pub died_at: u64,
    /// Addresses of those that followed the process when its sidecar saw it end.
    pub attached: Vec<String>,
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

    /// Ends the process; what a volume keeps is kept.
    pub fn stop(&mut self, persisted: bool, now: u64) {
        if let Process::Running(node) = &self.process {
            let data = Data { keys: node.keys.clone(), offset: node.offset, replication_id: node.replication_id };
            self.disk.data = persisted.then_some(data).filter(|data| !data.keys.is_empty());
            self.disk.node = Some((**node).clone());
        }
        self.died_at = now;
    }
}
