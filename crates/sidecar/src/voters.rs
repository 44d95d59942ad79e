//! Waits until enough primaries would vote, as `sidecar_rules::voters` decides. IO; the hand-over and the failover command call it.

use sidecar_rules::voters::{Opinion, Prospect, Said, Vote, are_asked, linked, prospect, would_hear};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use topology::{ClusterNode, ClusterNodes, NodeId};
use valkey::{Address, CallError, Connection, Info};

const ONE_ANSWER: Duration = Duration::from_millis(300);
const BETWEEN_ROUNDS: Duration = Duration::from_millis(200);

/// Who wants the votes, and where it is asked what it sees.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub id: NodeId,
    pub address: Address,
}

/// True as soon as an election can be won, as far as the voters and the candidate say. False when waiting would not help, or the time
/// is over. Those that do not answer are given `patience` to come back.
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
        match prospect(&votes, hopeful) {
            Prospect::Winnable => return true,
            Prospect::Hopeless => return false,
            Prospect::Later if Instant::now() + BETWEEN_ROUNDS > until => return false,
            Prospect::Later => {}
        }
        sleep(BETWEEN_ROUNDS).await;
    }
}

async fn ask_all(voters: &[(NodeId, Option<SocketAddr>)], candidate: &Arc<Candidate>) -> Vec<Vote> {
    // A candidate that says nothing now would say nothing in the election either.
    let Ok(seen) = view_of(&candidate.address).await else { return vec![Vote::Silent; voters.len()] };
    let mut asked = JoinSet::new();
    for (voter, address) in voters.iter().cloned() {
        let (heard, candidate) = (linked(&seen, &voter), candidate.clone());
        asked.spawn(async move {
            let answer = match address {
                Some(address) => ask(address).await.ok(),
                None => None,
            };
            answer.map_or(Vote::Silent, |(info, view)| vote_of(&info, heard && would_hear(&view, &candidate.id)))
        });
    }
    asked.join_all().await
}

/// The newest epoch that this replica can have won, if most voters say that nobody follows it.
pub async fn newest_if_nobody_follows(nodes: &ClusterNodes, candidate: &NodeId) -> Option<u64> {
    let mut asked = JoinSet::new();
    for voter in nodes.voters() {
        let (address, candidate) = (voter.address, candidate.clone());
        asked.spawn(async move { said_by(address?, &candidate).await.ok() });
    }
    sidecar_rules::voters::newest_if_nobody_follows(&asked.join_all().await)
}

/// What it sees is asked for last: an epoch that was taken before a claim would hide it.
async fn said_by(address: SocketAddr, candidate: &NodeId) -> Result<Said, CallError> {
    let mut connection = Connection::open(&Address::Tcp(address), ONE_ANSWER).await?;
    let epoch = connection.cluster_info().await?.current_epoch;
    Ok(Said::of(&connection.cluster_nodes().await?, epoch, candidate))
}

/// What these nodes say of the one with this id. A failure is told to everybody, so some speak for all.
pub async fn opinions_of(id: &NodeId, nodes: impl Iterator<Item = &ClusterNode>) -> Vec<Opinion> {
    let mut voters: Vec<&ClusterNode> = nodes.filter(|node| node.id != *id).collect();
    // Of a large cluster those are asked that are likely to answer.
    voters.sort_by_key(|node| !node.connected || node.has_failed());
    let mut asked = JoinSet::new();
    for node in voters.into_iter().take(sidecar_rules::voters::MOST) {
        let (address, id) = (node.address, id.clone());
        asked.spawn(async move { Some(Opinion::of(&view_of(&Address::Tcp(address?)).await.ok()?, &id)) });
    }
    asked.join_all().await.into_iter().map(|opinion| opinion.unwrap_or(Opinion::Silent)).collect()
}

/// Whether this very node runs where it is expected, whatever others say.
pub async fn answers_as(node: &ClusterNode) -> bool {
    let Some(address) = node.address else { return false };
    let view = view_of(&Address::Tcp(address)).await;
    view.is_ok_and(|view| view.myself().is_some_and(|myself| myself.id == node.id))
}

/// What those say of their replication who answer.
pub async fn replication_of(addresses: Vec<SocketAddr>) -> Vec<Info> {
    let mut asked = JoinSet::new();
    for address in addresses {
        asked.spawn(async move {
            let mut connection = Connection::open(&Address::Tcp(address), ONE_ANSWER).await.ok()?;
            connection.info(&["replication"]).await.ok()
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// What this node sees, when it answers.
pub async fn view_of(address: &Address) -> Result<ClusterNodes, CallError> {
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
