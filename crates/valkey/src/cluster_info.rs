//! The answer of CLUSTER INFO. Pure.

use crate::info::Info;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    pub state_ok: bool,
    pub slots_assigned: u64,
    pub slots_ok: u64,
    pub known_nodes: u64,
    pub size: u64,
    pub current_epoch: u64,
    pub my_epoch: u64,
    /// Valkey 8.1 does not count them here.
    pub failing_nodes: Option<FailingNodes>,
}

/// How many nodes a node takes for failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingNodes {
    /// Only it does.
    pub possibly: u64,
    /// Most primaries do.
    pub failed: u64,
}

impl ClusterInfo {
    pub fn parse(text: &str) -> Option<Self> {
        let info = Info::parse(text);
        Some(Self {
            state_ok: info.text("cluster_state")? == "ok",
            slots_assigned: info.number("cluster_slots_assigned")?,
            slots_ok: info.number("cluster_slots_ok")?,
            known_nodes: info.number("cluster_known_nodes")?,
            size: info.number("cluster_size")?,
            current_epoch: info.number("cluster_current_epoch")?,
            my_epoch: info.number("cluster_my_epoch")?,
            failing_nodes: info
                .number("cluster_nodes_pfail")
                .zip(info.number("cluster_nodes_fail"))
                .map(|(possibly, failed)| FailingNodes { possibly, failed }),
        })
    }

    /// A node that knows nobody else has not been taken into a cluster yet.
    pub fn is_alone(&self) -> bool {
        self.known_nodes <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMED: &str = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n\
        cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_nodes_pfail:1\r\ncluster_nodes_fail:2\r\ncluster_known_nodes:4\r\n\
        cluster_size:3\r\ncluster_current_epoch:3\r\ncluster_my_epoch:0\r\n";

    #[test]
    fn a_formed_cluster_is_read() {
        let info = ClusterInfo::parse(FORMED).unwrap();
        assert!(info.state_ok && !info.is_alone());
        assert_eq!((info.slots_assigned, info.known_nodes, info.size, info.current_epoch), (16384, 4, 3, 3));
        assert_eq!(info.failing_nodes, Some(FailingNodes { possibly: 1, failed: 2 }));
    }

    #[test]
    fn a_fresh_node_is_alone_and_not_ok() {
        let text = FORMED.replace("state:ok", "state:fail").replace("known_nodes:4", "known_nodes:1");
        let info = ClusterInfo::parse(&text).unwrap();
        assert!(!info.state_ok && info.is_alone());
    }

    #[test]
    fn a_missing_field_is_no_answer() {
        assert_eq!(ClusterInfo::parse("cluster_state:ok\r\n"), None);
    }
}
