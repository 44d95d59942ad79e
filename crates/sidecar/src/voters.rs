//! Whether enough primaries would vote now. From Valkey 9 on a primary denies its vote for a node timeout after its start, so an
//! election is not begun before it can be won. IO; the hand-over and the failover command call it.

use std::{net::SocketAddr, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use topology::ClusterNodes;
use valkey::{Address, CallError, Connection, Info};

const ONE_ANSWER: Duration = Duration::from_millis(300);
const BETWEEN_ROUNDS: Duration = Duration::from_millis(200);
/// The node timeout and a second for the rounding of uptimes.
const GROWN_UP_SECONDS: u64 = 6;
/// Older servers vote at once, but the others have to find them again first.
const FOUND_AGAIN_SECONDS: u64 = 1;
/// In a larger cluster a few restarted primaries are no majority, and asking everybody would take its time.
const MOST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vote {
    Able,
    TooYoung,
    Silent,
}

/// Returns when an election can be won, when waiting would not help, or when the time is over. Primaries that do not answer
/// are given `patience` to come back.
pub async fn wait_until_able(nodes: &ClusterNodes, patience: Duration, until: Instant) {
    let began = Instant::now();
    let addresses: Vec<Option<SocketAddr>> = nodes.voters().map(|node| node.address).collect();
    if addresses.len() > MOST {
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

fn waiting_helps(votes: &[Vote], hopeful: bool) -> bool {
    let count = |kind| votes.iter().filter(|vote| **vote == kind).count();
    let needed = votes.len() / 2 + 1;
    let able = count(Vote::Able);
    able < needed && (hopeful || able + count(Vote::TooYoung) >= needed)
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
    let major = info.text("valkey_version").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    let needed = if major.is_some_and(|major| major < 9) { FOUND_AGAIN_SECONDS } else { GROWN_UP_SECONDS };
    let old_enough = info.number("uptime_in_seconds").is_none_or(|seconds| seconds >= needed);
    if old_enough { Vote::Able } else { Vote::TooYoung }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Vote::{Able, Silent, TooYoung};

    #[test]
    fn waiting_helps_only_when_the_young_make_the_majority() {
        for hopeful in [false, true] {
            assert!(waiting_helps(&[Able, TooYoung, TooYoung], hopeful));
            assert!(waiting_helps(&[Able, TooYoung, Silent], hopeful));
            assert!(!waiting_helps(&[Able, Able, Silent], hopeful));
            assert_eq!(waiting_helps(&[Able, Silent, Silent], hopeful), hopeful);
        }
    }

    #[test]
    fn only_newer_servers_deny_their_vote_when_young() {
        let vote = |text: &str| vote_of(&Info::parse(text));
        assert_eq!(vote("valkey_version:9.1.2\nuptime_in_seconds:2\n"), TooYoung);
        assert_eq!(vote("valkey_version:9.1.2\nuptime_in_seconds:6\n"), Able);
        assert_eq!(vote("valkey_version:8.1.1\nuptime_in_seconds:2\n"), Able);
        assert_eq!(vote("valkey_version:8.1.1\nuptime_in_seconds:0\n"), TooYoung);
    }
}
