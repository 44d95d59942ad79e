use super::*;
use crate::line::scopes::WatchedScope;
use crate::runtime::Queues;
use futures::channel::mpsc::UnboundedReceiver;
use kube::runtime::reflector::store;
use link::contract::{NodeState, Role};
use pki::Thumbprint;

struct Kept {
    roster: Roster,
    wakeups: UnboundedReceiver<ObjectKey>,
}

impl Kept {
    fn new() -> Self {
        let scopes = Arc::new(Scopes::default());
        let queues = Queues::default();
        let wakeups = queues.open(api::names::KIND);
        scopes.add(WatchedScope { namespace: None, cache: Arc::default(), clusters: store().0, queues });
        Self { roster: Roster::new(scopes), wakeups }
    }

    /// How many passes were asked for since the last time.
    fn wakeups(&mut self) -> usize {
        std::iter::from_fn(|| self.wakeups.try_recv().ok()).count()
    }

    fn facts(&self) -> Arc<SidecarFacts> {
        self.roster.of_pod("pod").unwrap()
    }
}

fn sidecar(connection: u64, certificate: &str) -> Sidecar {
    let pod = ProvenPod {
        namespace: "team-a".into(),
        cluster: "orders".into(),
        cluster_uid: "cluster".into(),
        pod: "orders-0".into(),
        pod_uid: "pod".into(),
    };
    let certificate = pki::LeafFacts {
        id: pki::identity::sidecar("team-a", "orders").unwrap(),
        thumbprint: Thumbprint::recorded(certificate),
        not_before: Timestamp::UNIX_EPOCH,
        not_after: Timestamp::UNIX_EPOCH,
    };
    Sidecar { pod, version: "0.1.0".into(), certificate, address: ([127, 0, 0, 1], 1).into(), connection }
}

fn beat(role: Role, offset: u64) -> HeartbeatRequest {
    let node = NodeState { role: role.into(), replication_offset: offset, ..NodeState::default() };
    HeartbeatRequest { node: Some(node), ..HeartbeatRequest::default() }
}

#[test]
fn only_a_heartbeat_with_news_asks_for_a_look() {
    let mut kept = Kept::new();
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Primary, 1));
    assert_eq!(kept.wakeups(), 1, "the first one is news");
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Primary, 2));
    assert_eq!(kept.wakeups(), 0, "a counter that moved is not");
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Replica, 2));
    assert_eq!(kept.wakeups(), 1);
    kept.roster.heartbeat(&sidecar(2, "b"), beat(Role::Replica, 2));
    assert_eq!(kept.wakeups(), 1, "it came with a new certificate");
    assert_eq!(kept.roster.of_cluster("cluster").len(), 1);
}

#[test]
fn the_end_of_an_older_connection_is_no_news() {
    let mut kept = Kept::new();
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Primary, 1));
    kept.roster.heartbeat(&sidecar(2, "b"), beat(Role::Primary, 1));
    // The last words on the older connection come after the first on the newer.
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Replica, 1));
    assert_eq!(kept.facts().beat, beat(Role::Primary, 1));
    assert_eq!((kept.facts().connection, kept.facts().certificate.thumbprint.as_str()), (2, "b"));
    kept.wakeups();
    kept.roster.disconnected(&sidecar(1, "a"));
    assert!(kept.facts().connected && kept.wakeups() == 0);
    assert_eq!(kept.facts().presence, 1, "there was always a connection");
    kept.roster.disconnected(&sidecar(2, "b"));
    assert!(!kept.facts().connected && kept.facts().lost.is_some() && kept.wakeups() == 1);
    kept.roster.heartbeat(&sidecar(3, "b"), beat(Role::Primary, 1));
    assert_eq!((kept.facts().presence, kept.facts().lost), (3, None));
}

#[test]
fn a_pod_whose_newer_connection_ends_first_is_connected_by_the_older_one() {
    let mut kept = Kept::new();
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Primary, 1));
    kept.roster.heartbeat(&sidecar(2, "b"), beat(Role::Primary, 1));
    kept.wakeups();
    kept.roster.disconnected(&sidecar(2, "b"));
    assert!(kept.facts().connected && kept.facts().lost.is_none());
    assert_eq!((kept.facts().connection, kept.facts().certificate.thumbprint.as_str()), (1, "a"));
    assert_eq!((kept.facts().presence, kept.wakeups()), (1, 1), "it shows the former certificate again");
    kept.roster.disconnected(&sidecar(1, "a"));
    assert!(!kept.facts().connected && kept.wakeups() == 1);
}

#[test]
fn a_connection_that_has_ended_does_not_stand_in_for_the_newest() {
    let kept = Kept::new();
    for (connection, certificate) in [(1, "a"), (2, "b"), (3, "c")] {
        kept.roster.heartbeat(&sidecar(connection, certificate), beat(Role::Primary, 1));
    }
    kept.roster.disconnected(&sidecar(2, "b"));
    // Its last words may be heard after its end.
    kept.roster.heartbeat(&sidecar(2, "b"), beat(Role::Primary, 1));
    kept.roster.disconnected(&sidecar(3, "c"));
    assert_eq!((kept.facts().connected, kept.facts().connection), (true, 1));
    kept.roster.disconnected(&sidecar(1, "a"));
    assert!(!kept.facts().connected);
}

#[test]
fn the_longest_silence_is_that_of_the_pod_heard_first() {
    let kept = Kept::new();
    let now = Timestamp::now();
    assert_eq!(kept.roster.longest_silence(now), None);
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Primary, 1));
    let mut other = sidecar(2, "a");
    other.pod.pod_uid = "other".into();
    kept.roster.heartbeat(&other, beat(Role::Primary, 1));
    kept.roster.disconnected(&sidecar(1, "a"));
    let heard = kept.facts().last_heartbeat;
    let minute = k8s_openapi::jiff::SignedDuration::from_mins(1);
    assert_eq!(kept.roster.longest_silence(heard + minute), Some(Duration::from_secs(60)), "whether connected or not");
    assert_eq!(kept.roster.longest_silence(heard - minute), Some(Duration::ZERO), "a clock that was set back");
}

#[test]
fn a_report_that_is_repeated_is_kept_once_and_few_are_kept() {
    let mut kept = Kept::new();
    let report = |id: usize| ReportRequest { event_id: id.to_string(), ..ReportRequest::default() };
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Primary, 1));
    kept.wakeups();
    for id in [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 8] {
        kept.roster.report(&sidecar(1, "a").pod, report(id));
    }
    let ids: Vec<_> = kept.facts().reports.iter().map(|report| report.event_id.clone()).collect();
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert_eq!(kept.wakeups(), 11);
}

#[test]
fn pods_and_clusters_that_are_gone_are_forgotten() {
    let kept = Kept::new();
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Primary, 1));
    kept.roster.keep_pods("cluster", &[]);
    assert!(kept.roster.of_pod("pod").is_some(), "it is connected: the watch is behind");
    kept.roster.disconnected(&sidecar(1, "a"));
    kept.roster.keep_pods("cluster", &["pod"]);
    assert!(kept.roster.of_pod("pod").is_some());
    kept.roster.keep_clusters(Some("team-b"), &[]);
    assert!(kept.roster.of_pod("pod").is_some(), "it is another scope's");
    kept.roster.keep_pods("cluster", &[]);
    assert!(kept.roster.of_pod("pod").is_none());
}

#[test]
fn a_refused_token_is_news_once_and_is_forgotten_when_its_pod_is_heard_or_gone() {
    let mut kept = Kept::new();
    let pod = sidecar(1, "a").pod;
    for why in ["its service account was made anew", "its service account was made anew"] {
        kept.roster.turned_away(&pod, why);
    }
    assert_eq!(kept.wakeups(), 1);
    assert_eq!(kept.roster.refusals("cluster"), [("pod".to_owned(), "its service account was made anew".to_owned())]);
    assert!(kept.roster.refusals("another").is_empty());
    kept.roster.heartbeat(&sidecar(1, "a"), beat(Role::Primary, 1));
    assert!(kept.roster.refusals("cluster").is_empty());
    kept.roster.turned_away(&pod, "it has expired");
    kept.roster.keep_pods("cluster", &["pod"]);
    assert_eq!(kept.roster.refusals("cluster").len(), 1);
    kept.roster.keep_pods("cluster", &[]);
    assert!(kept.roster.refusals("cluster").is_empty());
}
