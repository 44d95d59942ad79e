//! Plain servers, each with what carries out its commands; a cluster formed by the commands themselves.

use crate::{
    command::{Context, execute},
    state::Shared,
};
use link::{
    client::Order,
    contract::{
        AddSlots, Done, Failover, FailoverMode, Forget, FullView, Meet, MigrateSlots, NodeAddress, Position, ReadView,
        Refused, RefusedReason, Replicate, SlotRange, answer::Outcome, command::Action,
    },
};
use std::time::{Duration, Instant};
use valkey::testing::{ServerVersion, TestServer};

const PARAMETERS: [&str; 10] = [
    "--cluster-enabled",
    "yes",
    "--repl-diskless-sync-delay",
    "0",
    "--cluster-node-timeout",
    "5000",
    "--cluster-announce-ip",
    "127.0.0.1",
    "--save",
    "",
];
/// It costs only a test that fails.
pub const DEADLINE: Duration = Duration::from_secs(120);
pub const SLOTS: [(u32, u32); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

pub struct Node {
    pub server: TestServer,
    pub context: Context,
}

impl Node {
    pub fn start(version: ServerVersion) -> Self {
        Self::start_with(version, &[])
    }

    pub fn start_with(version: ServerVersion, parameters: &[&str]) -> Self {
        let server = TestServer::start(version, &[&PARAMETERS, parameters].concat()).unwrap();
        let (socket, data_dir) = (server.socket.clone(), server.socket.parent().unwrap().to_owned());
        let context = Context { socket, data_dir, shared: Shared::default() };
        Self { server, context }
    }

    pub async fn run_within(&self, action: Action, deadline: Duration) -> Outcome {
        let order = Order { action, deadline, orchestration_id: String::new(), traceparent: String::new() };
        execute(order, &self.context).await
    }

    pub async fn run(&self, action: Action) -> Outcome {
        self.run_within(action, DEADLINE).await
    }

    pub async fn done(&self, action: Action) -> Done {
        match self.run(action).await {
            Outcome::Done(done) => done,
            other => panic!("{other:?}; the server's log:\n{}", self.server.log()),
        }
    }

    pub async fn refused(&self, action: Action) -> (RefusedReason, String) {
        match self.run(action).await {
            Outcome::Refused(Refused { reason, detail, .. }) => (reason.try_into().unwrap(), detail),
            other => panic!("{other:?}"),
        }
    }

    pub async fn is_unsafe(&self, action: Action, part: &str) {
        let (reason, detail) = self.refused(action).await;
        assert_eq!(reason, RefusedReason::Unsafe, "{detail}");
        assert!(detail.contains(part), "{detail}");
    }

    pub async fn id(&self) -> String {
        self.server.connect().await.unwrap().cluster_my_id().await.unwrap().to_string()
    }

    pub async fn view(&self) -> FullView {
        self.done(Action::ReadView(ReadView {})).await.view.unwrap()
    }
}

/// Three primaries and, at n+3, the replica of each.
pub async fn formed(version: ServerVersion) -> Vec<Node> {
    formed_of((0..6).map(|_| Node::start(version)).collect()).await
}

/// The first three become primaries; three more their replicas.
pub async fn formed_of(nodes: Vec<Node>) -> Vec<Node> {
    nodes[0].done(meet(&nodes)).await;
    for (node, slots) in nodes.iter().zip(SLOTS) {
        node.done(add_slots(slots)).await;
    }
    for (primary, replica) in nodes.iter().skip(3).enumerate() {
        let id = nodes[primary].id().await;
        eventually("the replica can follow", async || matches!(replica.run(replicate(&id)).await, Outcome::Done(_)))
            .await;
    }
    for node in &nodes {
        eventually("the cluster is up and linked in every view", async || settled(node, nodes.len() - 3).await).await;
    }
    nodes
}

async fn settled(node: &Node, copies: usize) -> bool {
    let view = node.view().await;
    let mut connection = node.server.connect().await.unwrap();
    let info = connection.info(&["replication"]).await.unwrap();
    let linked = !info.is_replica() || info.text("master_link_status") == Some("up");
    let replicas = view.nodes.iter().filter(|node| !node.primary_node_id.is_empty()).count();
    // Until replicas are in their primaries' shards, 8.1 does not start again from the nodes.conf it wrote.
    let shards = connection.call(&["CLUSTER", "SHARDS"]).await.unwrap().into_items().map_or(0, |shards| shards.len());
    let paired = shards == view.nodes.len() - copies;
    view.summary.is_some_and(|summary| summary.state_ok) && linked && replicas == copies && paired
}

pub async fn eventually(what: &str, mut reached: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !reached().await {
        assert!(Instant::now() < until, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn meet(nodes: &[Node]) -> Action {
    Action::Meet(Meet { nodes: nodes.iter().map(|node| at(node.server.port)).collect() })
}

pub fn at(port: u16) -> NodeAddress {
    let (ip, bus_port) = ("127.0.0.1".into(), u32::from(port) + 10_000);
    NodeAddress { ip, port: port.into(), bus_port, node_id: String::new() }
}

pub fn add_slots((first, last): (u32, u32)) -> Action {
    Action::AddSlots(AddSlots { ranges: vec![SlotRange { first, last }] })
}

pub fn migrate((first, last): (u32, u32), target: &str, keys_at_most: u32) -> Action {
    let (ranges, target_node_id) = (vec![SlotRange { first, last }], target.to_owned());
    Action::MigrateSlots(MigrateSlots { ranges, target_node_id, keys_at_most, replicas_at_least: 1 })
}

pub fn replicate(id: &str) -> Action {
    Action::Replicate(Replicate { primary_node_id: id.to_owned() })
}

pub fn failover(mode: FailoverMode) -> Action {
    Action::Failover(Failover { mode: mode.into(), at_least: None })
}

pub fn failover_with(at_least: Position) -> Action {
    Action::Failover(Failover { mode: FailoverMode::Force.into(), at_least: Some(at_least) })
}

pub fn forget(id: &str) -> Action {
    Action::Forget(Forget { node_ids: vec![id.to_owned()] })
}
