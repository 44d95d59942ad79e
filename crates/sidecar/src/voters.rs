//! Waits until enough primaries would vote, as `sidecar_rules::voters` decides. IO; the hand-over and the failover command call it.

use sidecar_rules::voters::{Vote, are_asked, linked, waiting_helps};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use topology::{ClusterNodes, NodeId};
use valkey::{Address, CallError, Connection, Info};

const ONE_ANSWER: Duration = Duration::from_millis(300);
const BETWEEN_ROUNDS: Duration = Duration::from_millis(200);

/// Who wants the votes, and where it is asked what it sees.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub id: NodeId,
    pub address: Address,
}

/// Returns when an election can be won, when waiting would not help, or, with false, when the time is over. Primaries that do not
/// answer are given `patience` to come back.
pub async fn wait_until_able(nodes: &ClusterNodes, candidate: Candidate, patience: Duration, until: Instant) -> bool {
    let began = Instant::now();
    let voters: Vec<(NodeId, Option<SocketAddr>)> =
        nodes.voters().map(|node| (node.id.clone(), node.address)).collect();
    if !are_asked(voters.len()) {
        return true;
    }
    let candidate = Arc::new(candidate);
    loop {
        let votes = ask_all(&voters, &candidate).await;
        let hopeful = began.elapsed() < patience;
        if !waiting_helps(&votes, hopeful) {
            return true;
        }
        if Instant::now() + BETWEEN_ROUNDS > until {
            return false;
        }
        sleep(BETWEEN_ROUNDS).await;
    }
}

async fn ask_all(voters: &[(NodeId, Option<SocketAddr>)], candidate: &Arc<Candidate>) -> Vec<Vote> {
    let seen = Arc::new(view_of(&candidate.address).await.ok());
    let mut asked = JoinSet::new();
    for (voter, address) in voters.iter().cloned() {
        let (seen, candidate) = (seen.clone(), candidate.clone());
        asked.spawn(async move {
            let heard = seen.as_ref().as_ref().is_none_or(|view| linked(view, &voter));
            match address {
                Some(address) => ask(address)
                    .await
                    .map_or(Vote::Silent, |(info, view)| vote_of(&info, heard && linked(&view, &candidate.id))),
                None => Vote::Silent,
            }
        });
    }
    asked.join_all().await
}

async fn view_of(address: &Address) -> Result<ClusterNodes, CallError> {
    Connection::open(address, ONE_ANSWER).await?.cluster_nodes().await
}

async fn ask(address: SocketAddr) -> Result<(Info, ClusterNodes), CallError> {
    let mut connection = Connection::open(&Address::Tcp(address), ONE_ANSWER).await?;
    Ok((connection.info(&["server"]).await?, connection.cluster_nodes().await?))
}

fn vote_of(info: &Info, linked: bool) -> Vote {
    let major = info.text("valkey_version").and_then(|version| version.split('.').next()?.parse().ok());
    Vote::of(major, info.number("uptime_in_seconds"), linked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_uptime_are_read_from_the_answer() {
        let vote = |text: &str| vote_of(&Info::parse(text), true);
        assert_eq!(vote("valkey_version:9.1.2\nuptime_in_seconds:2\n"), Vote::TooYoung);
        assert_eq!(vote("valkey_version:8.1.1\nuptime_in_seconds:2\n"), Vote::Able);
    }
}
