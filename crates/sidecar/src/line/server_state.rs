//! What the own server says of itself and of its cluster, and the same as the contract spells it. IO in `read`, the rest pure;
//! heartbeats and commands use it.

use super::slots_digest::slots_digest;
use crate::role::contract_role;
use link::contract::{ClusterView, Condition, LoadedModule, LoadedModules, NodeState};
use topology::{ClusterNode, ClusterNodes, Position};
use valkey::{CallError, ClusterInfo, Connection, Info};

const SECTIONS: [&str; 6] = ["server", "replication", "memory", "keyspace", "cluster", "module_list"];

/// Valkey 9.1 lists its own Lua among the modules.
pub const SCRIPTING: &str = "lua";

/// Cluster facts are `None` on a server that is not in cluster mode.
#[derive(Clone, Debug)]
pub struct ServerState {
    pub info: Info,
    pub cluster: Option<ClusterInfo>,
    pub nodes: Option<ClusterNodes>,
    pub shard_id: String,
}

pub async fn read(connection: &mut Connection) -> Result<ServerState, CallError> {
    let info = connection.info(&SECTIONS).await?;
    let mut server = ServerState { info, cluster: None, nodes: None, shard_id: String::new() };
    if server.info.flag("cluster_enabled") {
        server.cluster = Some(connection.cluster_info().await?);
        server.nodes = Some(connection.cluster_nodes().await?);
        server.shard_id = connection.cluster_my_shard_id().await?;
    }
    Ok(server)
}

impl ServerState {
    pub fn node_state(&self, condition: Condition) -> NodeState {
        let text = |name| self.info.text(name).unwrap_or_default().to_owned();
        let number = |name| self.info.number(name).unwrap_or_default();
        let myself = self.nodes.as_ref().and_then(ClusterNodes::myself);
        NodeState {
            node_id: myself.map(|node| node.id.to_string()).unwrap_or_default(),
            role: contract_role(self.info.role()).into(),
            condition: condition.into(),
            valkey_version: text("valkey_version"),
            replication_offset: self.replication_offset(),
            primary_node_id: myself.and_then(|node| node.primary.as_ref()).map(ToString::to_string).unwrap_or_default(),
            primary_link_up: self.primary_link_up(),
            connected_replicas: small(number("connected_slaves")),
            used_memory_bytes: number("used_memory"),
            maximum_memory_bytes: number("maxmemory"),
            keys: self.info.keys(),
            uptime_seconds: number("uptime_in_seconds"),
            run_id: text("run_id"),
            shard_id: self.shard_id.clone(),
            replication_id: text("master_replid"),
            primary_link_down_seconds: self.primary_link_down_seconds(),
            modules: Some(self.modules()),
        }
    }

    fn modules(&self) -> LoadedModules {
        let loaded = |(name, version): (&str, i64)| LoadedModule { name: name.to_owned(), version };
        let asked_for = self.info.modules().into_iter().filter(|(name, _)| *name != SCRIPTING);
        LoadedModules { modules: asked_for.map(loaded).collect() }
    }

    pub fn primary_link_up(&self) -> bool {
        self.info.text("master_link_status") == Some("up")
    }

    pub fn position(&self) -> Position {
        let replication_id = self.info.text("master_replid").unwrap_or_default().to_owned();
        Position { replication_id, offset: self.replication_offset() }
    }

    fn primary_link_down_seconds(&self) -> Option<i64> {
        match self.info.text("master_link_status")? {
            "up" => Some(0),
            // -1 until the first link of this run was lost.
            _ => self.info.text("master_link_down_since_seconds")?.parse().ok(),
        }
    }

    /// A replica's own position is what it has processed, not what it passes on.
    fn replication_offset(&self) -> u64 {
        let field = if self.info.is_replica() { "slave_repl_offset" } else { "master_repl_offset" };
        self.info.number(field).unwrap_or_default()
    }

    pub fn cluster_view(&self) -> Option<ClusterView> {
        let (cluster, nodes) = (self.cluster.as_ref()?, self.nodes.as_ref()?);
        let count = |wanted: &dyn Fn(&ClusterNode) -> bool| nodes.0.iter().filter(|node| wanted(node)).count();
        Some(ClusterView {
            state_ok: cluster.state_ok,
            current_epoch: cluster.current_epoch,
            my_epoch: cluster.my_epoch,
            known_nodes: small(cluster.known_nodes),
            primaries: small(cluster.size),
            failing_nodes: small(count(&ClusterNode::is_failing) as u64),
            failed_nodes: small(count(&ClusterNode::has_failed) as u64),
            slots_assigned: small(cluster.slots_assigned),
            slots_mine: nodes.myself().map_or(0, |node| node.slots.count()),
            slots_digest: slots_digest(nodes),
        })
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::contract::Role;

    const NODES: &str = "aa 10.0.0.1:6379@16379,a myself,master - 0 0 3 connected 0-9 12\n\
        bb 10.0.0.2:6379@16379,b master,fail? - 0 0 2 connected 10-11\n\
        cc 10.0.0.3:6379@16379,c slave aa 0 0 3 connected\n";
    const CLUSTER: &str = "cluster_state:fail\r\ncluster_slots_assigned:13\r\ncluster_slots_ok:13\r\n\
        cluster_known_nodes:3\r\ncluster_size:2\r\ncluster_current_epoch:3\r\ncluster_my_epoch:3\r\n";

    fn seen(info: &str) -> ServerState {
        let (cluster, nodes) = (ClusterInfo::parse(CLUSTER), ClusterNodes::parse(NODES));
        ServerState { info: Info::parse(info), cluster, nodes, shard_id: "s".into() }
    }

    #[test]
    fn a_primary_tells_its_own_position_and_its_part_of_the_slots() {
        let server = seen("role:master\nmaster_repl_offset:42\nmaster_replid:r\ndb0:keys=3,expires=0\ndb3:keys=4\n");
        let state = server.node_state(Condition::Ready);
        assert_eq!((state.node_id.as_str(), state.role(), state.replication_offset), ("aa", Role::Primary, 42));
        assert_eq!((state.keys, state.replication_id.as_str(), state.shard_id.as_str()), (7, "r", "s"));
        let view = server.cluster_view().unwrap();
        assert_eq!((view.slots_mine, view.slots_assigned, view.failing_nodes, view.known_nodes), (11, 13, 1, 3));
        assert!(!view.state_ok);
    }

    #[test]
    fn a_suspicion_that_is_confirmed_is_told() {
        let view = |nodes: &str| {
            let (cluster, nodes) = (ClusterInfo::parse(CLUSTER), ClusterNodes::parse(nodes));
            let view =
                ServerState { info: Info::parse(""), cluster, nodes, shard_id: "s".into() }.cluster_view().unwrap();
            (view.failing_nodes, view.failed_nodes)
        };
        assert_eq!((view(NODES), view(&NODES.replace("fail?", "fail"))), ((1, 0), (1, 1)));
    }

    #[test]
    fn a_replica_tells_what_it_has_processed() {
        let server = seen("role:slave\nmaster_link_status:up\nslave_repl_offset:40\nmaster_repl_offset:42\n");
        let state = server.node_state(Condition::NotInSync);
        assert_eq!((state.role(), state.replication_offset, state.primary_link_up), (Role::Replica, 40, true));
        assert_eq!(state.condition(), Condition::NotInSync);
        assert_eq!(state.primary_link_down_seconds, Some(0));
    }

    #[test]
    fn a_server_tells_its_modules_and_also_that_it_has_none() {
        let told = |info: &str| seen(info).node_state(Condition::Ready).modules.map(|list| list.modules);
        let json = LoadedModule { name: "json".into(), version: 10_002 };
        assert_eq!(told("module:name=json,ver=10002,api=1\n"), Some(vec![json]));
        assert_eq!(told("module:name=lua,ver=1,api=1\n"), Some(Vec::new()), "it comes with Valkey");
        assert_eq!(told("role:master\n"), Some(Vec::new()));
    }

    #[test]
    fn a_replica_tells_whether_it_ever_followed_in_this_run() {
        let down = |since: &str| {
            let info = format!("role:slave\nmaster_link_status:down\nmaster_link_down_since_seconds:{since}\n");
            seen(&info).node_state(Condition::NotInSync).primary_link_down_seconds
        };
        assert_eq!([down("7"), down("-1"), down("x")], [Some(7), Some(-1), None]);
        assert_eq!(seen("role:master\n").node_state(Condition::Ready).primary_link_down_seconds, None);
    }

    #[test]
    fn a_server_outside_any_cluster_has_no_view() {
        let server = ServerState { cluster: None, nodes: None, ..seen("role:master\n") };
        assert_eq!(server.cluster_view(), None);
        assert_eq!(server.node_state(Condition::Ready).node_id, "");
    }
}
