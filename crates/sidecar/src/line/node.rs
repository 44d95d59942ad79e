//! This pod on the line: its name and token, its heartbeat, and the commands it executes. IO.

use super::{
    heartbeat,
    server_state::{self, ServerState},
};
use crate::{arguments::RunArguments, command, health::observation, process::ProcessWatch, state::Shared};
use link::{
    client::{Node, Order},
    contract::{Condition, HeartbeatRequest, Sender, answer::Outcome},
};
use std::{fs, io, sync::Arc};
use valkey::{Address, CallError, Connection};
use zeroize::Zeroizing;

pub struct LineNode {
    pub arguments: Arc<RunArguments>,
    pub shared: Shared,
    pub process: ProcessWatch,
    pub sender: Sender,
}

impl LineNode {
    async fn read_server(&self) -> Result<ServerState, CallError> {
        let address = Address::Unix(self.arguments.pod.socket());
        server_state::read(&mut Connection::open(&address, self.arguments.probe_deadline).await?).await
    }

    async fn beat(&self) -> HeartbeatRequest {
        let pod = &self.arguments.pod;
        let observed = observation::observe(&pod.socket(), &pod.data_dir, self.arguments.probe_deadline).await;
        let kind = self.shared.judge(&observed).kind;
        let server = if kind.is_alive() { self.read_server().await.ok() } else { None };
        let condition = heartbeat::condition(kind);
        let node = server.as_ref().map_or_else(|| heartbeat::silent(condition), |server| server.node_state(condition));
        // While it runs, this would be another word for what it says itself.
        let last_position = self.process.position().filter(|_| condition == Condition::Down).map(heartbeat::position);
        let state = self.shared.lock();
        HeartbeatRequest {
            node: Some(node),
            view: server.as_ref().and_then(ServerState::cluster_view),
            revisions: Some(heartbeat::revisions(&state)),
            volume: observed.disk.map(heartbeat::volume),
            boot: state.boot.clone(),
            last_position,
            ..HeartbeatRequest::default()
        }
    }
}

impl Node for LineNode {
    fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// From memory, not from a disk: reading it does not block.
    async fn token(&self) -> io::Result<Zeroizing<String>> {
        fs::read_to_string(&self.arguments.line_token).map(Zeroizing::new)
    }

    async fn heartbeat(&self) -> HeartbeatRequest {
        self.beat().await
    }

    async fn execute(&self, order: Order) -> Outcome {
        let pod = &self.arguments.pod;
        let (socket, data_dir) = (pod.socket(), pod.data_dir.clone());
        let context = command::Context { socket, data_dir, shared: self.shared.clone() };
        command::execute(order, &context).await
    }
}
