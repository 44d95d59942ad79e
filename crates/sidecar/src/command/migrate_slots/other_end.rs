//! The other end of a migration, asked and told directly: SETSLOT needs both ends at the same time. IO.

use super::super::execution::{Execution, Stop};
use crate::line::server_state;
use sidecar_rules::commands::migrate_slots::{Copies, Target};
use std::{net::SocketAddr, time::Duration};
use topology::{ClusterNodes, NodeId};
use valkey::{Address, Connection, Info};

const PATIENCE: Duration = Duration::from_secs(2);

pub struct OtherEnd {
    pub id: NodeId,
    pub address: SocketAddr,
}

impl OtherEnd {
    pub fn find(nodes: &ClusterNodes, id: &NodeId) -> Result<Self, Stop> {
        let address = nodes.find(id).and_then(|node| node.address);
        let address = address.ok_or_else(|| Stop::Failed(format!("{id} has no known address")))?;
        Ok(Self { id: id.clone(), address })
    }

    /// An address is handed on to other pods: whoever answers has to be the node that is meant.
    pub async fn connect(&self, execution: &Execution<'_>) -> Result<Connection, Stop> {
        let mut connection = Connection::open(&Address::Tcp(self.address), PATIENCE.min(execution.left())).await?;
        let found = connection.cluster_my_id().await?;
        if found != self.id {
            return Err(Stop::Failed(format!("{found} is at {} now, not {}", self.address, self.id)));
        }
        connection.renew(execution.patience());
        Ok(connection)
    }

    pub async fn nodes(&self, execution: &Execution<'_>) -> Result<ClusterNodes, Stop> {
        Ok(self.connect(execution).await?.cluster_nodes().await?)
    }

    pub async fn ask(&self, execution: &Execution<'_>) -> Result<Target, Stop> {
        let mut connection = self.connect(execution).await?;
        let loading = connection.info(&["persistence"]).await?.flag("loading");
        let server = server_state::read(&mut connection).await?;
        Ok(Target {
            view: server.nodes.ok_or_else(|| Stop::Failed(format!("{} is not in cluster mode", self.id)))?,
            cluster_ok: server.cluster.is_some_and(|cluster| cluster.state_ok),
            loading,
            copies: copies(&server.info),
        })
    }
}

pub fn copies(info: &Info) -> Copies {
    let attached = info.attached_replicas();
    let online = attached.iter().filter(|replica| replica.online).count();
    Copies { online, in_full_sync: attached.len() - online }
}

pub async fn info_of(address: SocketAddr) -> Option<Info> {
    let mut connection = Connection::open(&Address::Tcp(address), PATIENCE).await.ok()?;
    connection.info(&["server", "replication"]).await.ok()
}
