//! Asks the nodes this one knew what became of its slots, again and again while it waits. IO; the boot guard starts and ends it.

use parking_lot::Mutex;
use sidecar_rules::boot::{CopyState, PastNode, Peer, PeerAnswer};
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    net::lookup_host,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use topology::{ClusterNode, NodeId, Position};
use valkey::{Address, CallError, Connection, Info};

use crate::election::position;

const BETWEEN_ROUNDS: Duration = Duration::from_millis(250);
const ONE_PEER: Duration = Duration::from_secs(1);
/// Of the address a peer had over its name.
const HEAD_START: Duration = Duration::from_millis(100);
/// One that knows is enough; a large cluster is not asked as a whole. All replicas of this node are.
const OTHERS_AT_ONCE: usize = 8;

pub struct Inquiry {
    answers: Arc<Mutex<BTreeMap<NodeId, PeerAnswer>>>,
    task: AbortHandle,
    began: Instant,
}

impl Inquiry {
    /// `seen`: what this node had when it was last seen as a primary.
    pub fn start(past: PastNode, seen: Option<Position>) -> Self {
        let answers = Arc::default();
        let asking = Asking { past, seen };
        let task = tokio::spawn(ask_for_ever(Arc::new(asking), Arc::clone(&answers))).abort_handle();
        Self { answers, task, began: Instant::now() }
    }

    pub fn asked(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn answers(&self) -> BTreeMap<NodeId, PeerAnswer> {
        self.answers.lock().clone()
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is asked about.
struct Asking {
    past: PastNode,
    seen: Option<Position>,
}

async fn ask_for_ever(about: Arc<Asking>, answers: Arc<Mutex<BTreeMap<NodeId, PeerAnswer>>>) {
    for round in 0.. {
        let mut asked = JoinSet::new();
        for peer in chosen(&about.past, round) {
            asked.spawn(ask(about.clone(), peer));
        }
        while let Some(answered) = asked.join_next().await {
            let Ok((id, answer)) = answered else { continue };
            // What a node said stays known when it falls silent: a better copy that is slow is still a better copy.
            if let Some(answer) = answer {
                answers.lock().insert(id, answer);
            }
        }
        sleep(BETWEEN_ROUNDS).await;
    }
}

/// All that may hold a copy, and of the others a few, different ones in each round.
fn chosen(past: &PastNode, round: usize) -> Vec<Peer> {
    let (mut copies, others): (Vec<Peer>, Vec<Peer>) = past.peers.iter().cloned().partition(Peer::may_hold_copy);
    let start = round.saturating_mul(OTHERS_AT_ONCE).checked_rem(others.len()).unwrap_or_default();
    let count = others.len().min(OTHERS_AT_ONCE);
    copies.extend(others.into_iter().cycle().skip(start).take(count));
    copies
}

async fn ask(about: Arc<Asking>, peer: Peer) -> (NodeId, Option<PeerAnswer>) {
    let answer = timeout(ONE_PEER, find_and_ask(&about, &peer)).await.ok().flatten();
    tracing::debug!(peer = %peer.id, ?answer, "a node was asked what became of the slots of this one");
    (peer.id, answer)
}

/// Where it was, and where its name leads now: a pod that was restarted has another address, and its old one says nothing at all.
async fn find_and_ask(about: &Asking, peer: &Peer) -> Option<PeerAnswer> {
    tokio::select! {
        Some(answer) = ask_where_it_was(about, peer) => Some(answer),
        Some(answer) = ask_at_its_name(about, peer) => Some(answer),
        else => None,
    }
}

async fn ask_where_it_was(about: &Asking, peer: &Peer) -> Option<PeerAnswer> {
    ask_at(about, peer, peer.address?, PastNode::is_peer).await.ok().flatten()
}

async fn ask_at_its_name(about: &Asking, peer: &Peer) -> Option<PeerAnswer> {
    // Most are where they were, and names are not free.
    sleep(HEAD_START).await;
    for address in resolved(peer).await.unwrap_or_default() {
        if let Ok(Some(answer)) = ask_at(about, peer, address, is_peer_or_replaced_it).await {
            return Some(answer);
        }
    }
    None
}

async fn resolved(peer: &Peer) -> io::Result<Vec<SocketAddr>> {
    let (Some(name), Some(port)) = (&peer.hostname, peer.address.map(|address| address.port())) else {
        return Ok(Vec::new());
    };
    Ok(lookup_host((name.as_str(), port)).await?.collect())
}

/// What runs in its pod now speaks for it: it holds nothing of this node's, unless it follows it anew.
fn is_peer_or_replaced_it(past: &PastNode, peer: &Peer, answering: &ClusterNode) -> bool {
    past.is_peer(peer, answering) || PastNode::is_replaced(peer, answering)
}

type Concerns = fn(&PastNode, &Peer, &ClusterNode) -> bool;

/// `None` when whoever answers there does not concern the peer: an address is handed on, a node id is not.
async fn ask_at(
    about: &Asking,
    peer: &Peer,
    address: SocketAddr,
    concerns: Concerns,
) -> Result<Option<PeerAnswer>, CallError> {
    let mut connection = Connection::open(&Address::Tcp(address), ONE_PEER).await?;
    let view = connection.cluster_nodes().await?;
    if !view.myself().is_some_and(|node| concerns(&about.past, peer, node)) {
        return Ok(None);
    }
    let info = connection.info(&["replication", "persistence", "keyspace"]).await?;
    Ok(Some(PeerAnswer::of(&about.past, &view, copy_state(&info, SystemTime::now(), about.seen.as_ref()))))
}

fn copy_state(info: &Info, now: SystemTime, seen: Option<&Position>) -> CopyState {
    // -1 until the first link of this run was lost; of the other's clock only the difference is used.
    let lost = info.number("master_link_down_since_seconds").map(Duration::from_secs);
    CopyState {
        loading: info.flag("loading"),
        keys: info.keys(),
        link_up: info.text("master_link_status") == Some("up"),
        link_lost: lost.and_then(|ago| now.checked_sub(ago)),
        short: seen.zip(position(info)).is_some_and(|(seen, has)| has.is_behind(seen)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{Role, SlotSet};
    use valkey::testing::{BOTH_VERSIONS, TestServer};

    fn past(peers: Vec<Peer>) -> PastNode {
        let (role, slots) = (Role::Primary, SlotSet::default());
        PastNode { id: "me".into(), role, slots, config_epoch: 7, peers }
    }

    #[test]
    fn a_replica_without_a_link_tells_when_it_was_lost_if_it_had_one() {
        let now = SystemTime::now();
        let of =
            |info: &str| copy_state(&Info::parse(&format!("{info}\ndb0:keys=2,expires=0\ndb7:keys=3\n")), now, None);
        let down = "role:slave\nmaster_link_status:down\nmaster_link_down_since_seconds:";
        let expected = CopyState { loading: false, keys: 5, link_up: false, link_lost: None, short: false };
        assert_eq!(of(&format!("{down}-1")), expected);
        assert_eq!(of(&format!("{down}-1\nloading:1")), CopyState { loading: true, ..expected });
        assert_eq!(of("role:slave\nmaster_link_status:up"), CopyState { link_up: true, ..expected });
        let lost = Some(now - Duration::from_secs(2));
        assert_eq!(of(&format!("{down}2")), CopyState { link_lost: lost, ..expected });
    }

    #[test]
    fn a_replica_is_short_of_what_was_seen_only_in_the_same_history() {
        let seen = Position { replication_id: "h".into(), offset: 9 };
        let short = |id: &str, offset: u64| {
            let info = Info::parse(&format!("master_replid:{id}\nslave_repl_offset:{offset}\n"));
            copy_state(&info, SystemTime::now(), Some(&seen)).short
        };
        assert_eq!([short("h", 8), short("h", 9), short("other", 8)], [true, false, false]);
    }

    /// An address of a pod that is gone takes no connection and refuses none; here it takes them and says nothing.
    #[tokio::test]
    async fn a_peer_that_left_its_address_is_found_by_its_name_in_the_same_second() {
        for version in BOTH_VERSIONS {
            let server = TestServer::start(version, &["--cluster-enabled", "yes", "--bind", "127.0.0.1"]).unwrap();
            let silent = std::net::TcpListener::bind(("127.0.0.9", server.port)).unwrap();
            let id = server.connect().await.unwrap().cluster_my_id().await.unwrap();
            let (address, hostname) = (silent.local_addr().ok(), Some("localhost".to_owned()));
            let (replica_of_mine, former_primary, unlisted) = (true, false, false);
            let peer = Peer { id, address, hostname, replica_of_mine, former_primary, unlisted };
            let past = Arc::new(Asking { past: past(vec![peer.clone()]), seen: None });
            let mut rounds = 0..60;
            while ask(past.clone(), peer.clone()).await.1.is_none() {
                assert!(rounds.next().is_some(), "{version:?}: never found");
            }
        }
    }

    #[test]
    fn all_copies_are_asked_each_time_and_everybody_else_in_turn() {
        let peer = |index: usize| Peer {
            id: NodeId::new(index.to_string()),
            address: None,
            hostname: None,
            replica_of_mine: index == 0,
            former_primary: index == 1,
            unlisted: false,
        };
        let past = past((0..30).map(peer).collect());
        let mut met = std::collections::BTreeSet::new();
        for round in 0..4 {
            let asked = chosen(&past, round);
            assert_eq!(asked.len(), 2 + OTHERS_AT_ONCE);
            assert!(asked.iter().filter(|peer| peer.may_hold_copy()).count() == 2);
            met.extend(asked.into_iter().map(|peer| peer.id));
        }
        assert_eq!(met.len(), 30);
        assert!(chosen(&PastNode { peers: Vec::new(), ..past }, 3).is_empty());
    }
}
