//! Waits until enough primaries would vote, as `sidecar_rules::voters` decides. IO; the hand-over and the failover command call it.

use sidecar_rules::voters::{Vote, are_asked, waiting_helps};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use topology::ClusterNodes;
use valkey::{Address, CallError, Connection, Info};

const ONE_ANSWER: Duration = Duration::from_millis(300);
const BETWEEN_ROUNDS: Duration = Duration::from_millis(200);
/// Returns when an election can be won, when waiting would not help, or when the time is over. Primaries that do not answer
/// are given `patience` to come back.
pub async fn wait_until_able(nodes: &ClusterNodes, patience: Duration, until: Instant) {
    let began = Instant::now();
    let addresses: Vec<Option<SocketAddr>> = nodes.voters().map(|node| node.address).collect();
    if !are_asked(addresses.len()) {
        return;
    }
    loop {
        let votes = ask_all(&addresses).await;
        let hopeful = began.elapsed() < patience;
        if !waiting_helps(&votes, hopeful) || Instant::now() + BETWEEN_ROUNDS > until {
            return;
        }
        sleep(BETWEEN_ROUNDS).await;
    }
}

async fn ask_all(addresses: &[Option<SocketAddr>]) -> Vec<Vote> {
    let mut asked = JoinSet::new();
    for address in addresses.iter().copied() {
        asked.spawn(async move {
            match address {
                Some(address) => ask(address).await.map_or(Vote::Silent, |info| vote_of(&info)),
                None => Vote::Silent,
            }
        });
    }
    asked.join_all().await
}

async fn ask(address: SocketAddr) -> Result<Info, CallError> {
    Connection::open(&Address::Tcp(address), ONE_ANSWER).await?.info(&["server"]).await
}

fn vote_of(info: &Info) -> Vote {
    let major = info.text("valkey_version").and_then(|version| version.split('.').next()?.parse().ok());
    Vote::of(major, info.number("uptime_in_seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_uptime_are_read_from_the_answer() {
        let vote = |text: &str| vote_of(&Info::parse(text));
        assert_eq!(vote("valkey_version:9.1.2\nuptime_in_seconds:2\n"), Vote::TooYoung);
        assert_eq!(vote("valkey_version:8.1.1\nuptime_in_seconds:2\n"), Vote::Able);
    }
}
