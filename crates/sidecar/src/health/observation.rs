//! Asks the server and the volume how they are, all within one deadline. IO; each probe makes a fresh connection, because
//! a connection kept open would not notice that new clients are turned away.

use super::disk::{self, Disk};
use std::{path::Path, time::Duration};
use topology::ClusterNodes;
use valkey::{Address, CallError, ClusterInfo, Connection, FailingNodes, Info, Refusal};

#[derive(Debug, Default)]
pub struct Observation {
    pub answer: Answer,
    /// `None` when the server does not give it now.
    pub info: Option<Info>,
    pub cluster: Option<ClusterInfo>,
    pub disk: Option<Disk>,
}

#[derive(Debug, Default)]
pub enum Answer {
    Pong,
    Refused(Refusal),
    #[default]
    NobodyListens,
    /// The connection was taken and nothing came back in time.
    Silence(Duration),
    Broken(String),
}

const SECTIONS: [&str; 5] = ["server", "replication", "persistence", "memory", "cluster"];

pub async fn observe(socket: &Path, data_dir: &Path, deadline: Duration) -> Observation {
    let (server, disk) = tokio::join!(ask_server(socket, deadline), disk::ask(data_dir, deadline));
    Observation { disk, ..server }
}

/// The same without the volume.
pub async fn ask_server(socket: &Path, deadline: Duration) -> Observation {
    let address = Address::Unix(socket.to_owned());
    let mut connection = match Connection::open(&address, deadline).await {
        Ok(connection) => connection,
        Err(error) => return Observation { answer: answer(Err(error)), ..Default::default() },
    };
    let ping = connection.ping().await;
    let mut observation = Observation { answer: answer(ping.map(drop)), ..Default::default() };
    if matches!(observation.answer, Answer::Pong | Answer::Refused(_)) {
        observation.add_details(&mut connection).await;
    }
    observation
}

impl Observation {
    async fn add_details(&mut self, connection: &mut Connection) {
        match connection.info(&SECTIONS).await {
            Ok(info) => self.info = Some(info),
            // It answered the ping and then stopped answering.
            Err(error @ CallError::AnswerDeadline { .. }) => return self.answer = answer(Err(error)),
            Err(_) => return,
        }
        if self.info.as_ref().is_some_and(|info| info.flag("cluster_enabled")) {
            self.cluster = connection.cluster_info().await.ok();
            self.count_failing(connection).await;
        }
    }

    /// What an 8.1 does not count itself. Nothing else tells that a replica is away, or back.
    async fn count_failing(&mut self, connection: &mut Connection) {
        let Some(cluster) = self.cluster.as_mut().filter(|cluster| cluster.failing_nodes.is_none()) else { return };
        let Ok(nodes) = connection.cluster_nodes().await else { return };
        cluster.failing_nodes = Some(count(&nodes));
    }
}

fn count(nodes: &ClusterNodes) -> FailingNodes {
    let (failed, possibly): (Vec<_>, Vec<_>) =
        nodes.0.iter().filter(|node| node.is_failing()).partition(|node| node.has_failed());
    FailingNodes { possibly: possibly.len() as u64, failed: failed.len() as u64 }
}

fn answer(result: Result<(), CallError>) -> Answer {
    match result {
        Ok(()) => Answer::Pong,
        Err(CallError::Refused(refusal)) => Answer::Refused(refusal),
        Err(error) if error.nobody_listens() => Answer::NobodyListens,
        Err(CallError::AnswerDeadline { deadline, .. } | CallError::ConnectDeadline { deadline, .. }) => {
            Answer::Silence(deadline)
        }
        Err(error) => Answer::Broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspicions_and_failures_are_counted_where_valkey_does_not() {
        let nodes = "aa 10.0.0.1:6379@16379,a myself,master - 0 0 3 connected 0-9\n\
            bb 10.0.0.2:6379@16379,b master,fail? - 0 0 2 connected 10-11\n\
            cc 10.0.0.3:6379@16379,c slave,fail aa 0 0 3 connected\n";
        let counted = ClusterNodes::parse(nodes).map(|nodes| count(&nodes));
        assert_eq!(counted, Some(FailingNodes { possibly: 1, failed: 1 }));
    }
}
