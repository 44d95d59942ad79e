//! The admin commands, typed. IO through `Connection`; the sidecar and the tests call them.

use crate::{
    cluster_info::ClusterInfo,
    connection::{CallError, Connection},
    info::Info,
    reply::Reply,
};
use std::{collections::BTreeMap, time::Duration};
use topology::{ClusterNodes, NodeId, Role, SlotRange};

impl Connection {
    /// The text of the answer, `PONG` from a server that serves.
    pub async fn ping(&mut self) -> Result<String, CallError> {
        Ok(self.call(&["PING"]).await?.into_text())
    }

    /// `sections` as INFO takes them, such as `replication`; none means the server's default selection.
    pub async fn info(&mut self, sections: &[&str]) -> Result<Info, CallError> {
        let command: Vec<&str> = std::iter::once("INFO").chain(sections.iter().copied()).collect();
        Ok(Info::parse(&self.call(&command).await?.into_text()))
    }

    pub async fn role(&mut self) -> Result<Role, CallError> {
        self.info(&["replication"]).await?.role().ok_or(CallError::Unexpected { command: "INFO replication" })
    }

    /// Values of the named parameters; those the server does not know are absent.
    pub async fn config_get(&mut self, names: &[&str]) -> Result<BTreeMap<String, String>, CallError> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let command: Vec<&str> = ["CONFIG", "GET"].into_iter().chain(names.iter().copied()).collect();
        let pairs = self.call(&command).await?.into_pairs();
        pairs.map(BTreeMap::from_iter).ok_or(CallError::Unexpected { command: "CONFIG GET" })
    }

    /// Sets all or none.
    pub async fn config_set(&mut self, values: &BTreeMap<String, String>) -> Result<(), CallError> {
        if values.is_empty() {
            return Ok(());
        }
        let pairs = values.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let command: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(pairs).collect();
        self.call(&command).await.and_then(|reply| expect_ok(reply, "CONFIG SET"))
    }

    /// Asks for a snapshot in the background; it waits its turn behind a running child.
    pub async fn background_save(&mut self) -> Result<(), CallError> {
        self.call(&["BGSAVE", "SCHEDULE"]).await.map(drop)
    }

    /// Writes of clients wait, for so long at most or until `resume_writes`; what a node does by itself goes on.
    pub async fn hold_writes(&mut self, longest: Duration) -> Result<(), CallError> {
        let milliseconds = longest.as_millis().to_string();
        self.call(&["CLIENT", "PAUSE", &milliseconds, "WRITE"]).await.map(drop)
    }

    pub async fn resume_writes(&mut self) -> Result<(), CallError> {
        self.call(&["CLIENT", "UNPAUSE"]).await.map(drop)
    }

    pub async fn cluster_info(&mut self) -> Result<ClusterInfo, CallError> {
        let text = self.call(&["CLUSTER", "INFO"]).await?.into_text();
        ClusterInfo::parse(&text).ok_or(CallError::Unexpected { command: "CLUSTER INFO" })
    }

    pub async fn cluster_nodes(&mut self) -> Result<ClusterNodes, CallError> {
        let text = self.call(&["CLUSTER", "NODES"]).await?.into_text();
        ClusterNodes::parse(&text).ok_or(CallError::Unexpected { command: "CLUSTER NODES" })
    }

    pub async fn cluster_my_id(&mut self) -> Result<NodeId, CallError> {
        Ok(NodeId::new(self.call(&["CLUSTER", "MYID"]).await?.into_text()))
    }

    pub async fn cluster_my_shard_id(&mut self) -> Result<String, CallError> {
        Ok(self.call(&["CLUSTER", "MYSHARDID"]).await?.into_text())
    }

    /// Sent to a replica: it takes over from its primary after both have the same offset. OK means accepted, not done.
    pub async fn cluster_failover(&mut self) -> Result<(), CallError> {
        self.acknowledged("CLUSTER FAILOVER", &[]).await
    }

    /// The primary is not asked; a majority of the others is. OK means accepted, not done.
    pub async fn cluster_failover_force(&mut self) -> Result<(), CallError> {
        self.acknowledged("CLUSTER FAILOVER", &["FORCE"]).await
    }

    /// Nobody is asked.
    pub async fn cluster_failover_takeover(&mut self) -> Result<(), CallError> {
        self.acknowledged("CLUSTER FAILOVER", &["TAKEOVER"]).await
    }

    pub async fn cluster_meet(&mut self, ip: &str, port: u16) -> Result<(), CallError> {
        self.acknowledged("CLUSTER MEET", &[ip, &port.to_string()]).await
    }

    pub async fn cluster_meet_on_bus(&mut self, ip: &str, port: u16, bus_port: u16) -> Result<(), CallError> {
        self.acknowledged("CLUSTER MEET", &[ip, &port.to_string(), &bus_port.to_string()]).await
    }

    pub async fn cluster_replicate(&mut self, primary: &NodeId) -> Result<(), CallError> {
        self.acknowledged("CLUSTER REPLICATE", &[primary.as_str()]).await
    }

    pub async fn cluster_add_slots(&mut self, first: u16, last: u16) -> Result<(), CallError> {
        self.cluster_add_slot_ranges(&[SlotRange::new(first, last)]).await
    }

    /// All or none.
    pub async fn cluster_add_slot_ranges(&mut self, ranges: &[SlotRange]) -> Result<(), CallError> {
        let words: Vec<String> =
            ranges.iter().flat_map(|range| [range.first.to_string(), range.last.to_string()]).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.acknowledged("CLUSTER ADDSLOTSRANGE", &words).await
    }

    /// Only a node that knows nobody and has no epoch yet takes one.
    pub async fn cluster_set_config_epoch(&mut self, epoch: u64) -> Result<(), CallError> {
        self.acknowledged("CLUSTER SET-CONFIG-EPOCH", &[&epoch.to_string()]).await
    }

    /// Takes an epoch newer than all this node has heard of, unless it has the newest, and tells it to all others.
    pub async fn cluster_bump_epoch(&mut self) -> Result<(), CallError> {
        self.call(&["CLUSTER", "BUMPEPOCH"]).await.map(drop)
    }

    pub async fn cluster_forget(&mut self, node: &NodeId) -> Result<(), CallError> {
        self.acknowledged("CLUSTER FORGET", &[node.as_str()]).await
    }

    /// It becomes a new node that knows nobody. A replica loses its keys, and a primary its slots if it has no keys; of a primary with keys Valkey refuses it.
    pub async fn cluster_reset_hard(&mut self) -> Result<(), CallError> {
        self.acknowledged("CLUSTER RESET", &["HARD"]).await
    }

    /// Number of keys in the selected database.
    pub async fn database_size(&mut self) -> Result<u64, CallError> {
        let size = self.call(&["DBSIZE"]).await?.into_text();
        size.parse().map_err(|_| CallError::Unexpected { command: "DBSIZE" })
    }

    pub(crate) async fn acknowledged(&mut self, command: &'static str, arguments: &[&str]) -> Result<(), CallError> {
        let words: Vec<&str> = command.split(' ').chain(arguments.iter().copied()).collect();
        self.call(&words).await.and_then(|reply| expect_ok(reply, command))
    }
}

fn expect_ok(reply: Reply, command: &'static str) -> Result<(), CallError> {
    match reply {
        Reply::Simple(text) if text == "OK" => Ok(()),
        _ => Err(CallError::Unexpected { command }),
    }
}
