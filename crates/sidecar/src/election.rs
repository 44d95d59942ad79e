//! A replica stands for election only while its sidecar consents. Valkey lets one stand that was frozen when its primary failed and hears
//! of that only now, however long the primary has been back; and from Valkey 9 on the voters take a replica's word for it that its
//! primary has failed. IO; one task, started by `main`. The agent holds the parameter at what was last decided.

use crate::{process::ProcessWatch, state::Shared, voters};
use sidecar_rules::voters::{may_stand, was_outlived};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, SystemTime},
};
use tokio::time::{Instant, sleep};
use topology::{ClusterNode, ClusterNodes, Position, Role};
use valkey::{Address, CallError, Connection, Info};

pub const PARAMETER: &str = "cluster-replica-no-failover";
pub const STAY: &str = "yes";
const STAND: &str = "no";
/// While the replica hears nothing of its primary.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_millis(500);
/// What was heard is about that moment: a process that was stopped for longer in between asks again.
const STALE: Duration = Duration::from_secs(1);
/// A consent stands until the next look but one, or the one after it on a busy machine.
const STANDS: Duration = Duration::from_secs(3);
/// So long a replica that has more is waited for.
const FOR_THE_BEST: Duration = Duration::from_secs(3);

/// What the other nodes say of an election now.
enum Prospect {
    /// There is none to hold, as far as is known.
    None,
    /// Its primary lived on after this replica had lost it.
    Outlived,
    /// Another replica answers that has more.
    Outdone,
    Best,
}

/// With a replica that has more, from the moment on in which that one could stand.
#[derive(Default)]
struct Patience {
    outdone_since: Option<Instant>,
}

impl Patience {
    fn consents(&mut self, prospect: &Prospect, now: Instant) -> bool {
        match prospect {
            Prospect::None | Prospect::Outlived => false,
            Prospect::Best => true,
            Prospect::Outdone => now - *self.outdone_since.get_or_insert(now) >= FOR_THE_BEST,
        }
    }
}

/// Until when a process may stand for election.
#[derive(Clone, Debug, Default)]
pub struct Consent(Option<(String, Instant)>);

impl Consent {
    /// The parameter's value for this process.
    pub fn value(&self, run_id: &str, now: Instant) -> &'static str {
        let stands = self.0.as_ref().is_some_and(|(run, until)| run == run_id && now < *until);
        if stands { STAND } else { STAY }
    }
}

pub struct Elections {
    pub socket: PathBuf,
    pub shared: Shared,
    pub process: ProcessWatch,
}

impl Elections {
    pub async fn run(self) {
        let mut orphaned = self.process.orphaned();
        loop {
            let _ = orphaned.wait_for(|orphaned| *orphaned).await;
            self.follow().await;
        }
    }

    /// While it hears nothing of its primary.
    async fn follow(&self) {
        let (mut patience, mut told, mut outlived) = (Patience::default(), false, false);
        loop {
            let orphaned = *self.process.orphaned().borrow();
            // Silence is no consent; what stands ends by itself.
            let prospect = if orphaned { self.look().await.unwrap_or(Prospect::None) } else { Prospect::None };
            if matches!(prospect, Prospect::Outlived) && !std::mem::replace(&mut outlived, true) {
                tracing::warn!("the primary was heard after this replica had lost it: it does not stand for election");
            }
            let consents = patience.consents(&prospect, Instant::now());
            if consents || told {
                // What could not be taken back is taken back later.
                told = self.tell(consents).await.is_err() || consents;
            }
            if !orphaned && !told {
                return;
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn look(&self) -> Result<Prospect, CallError> {
        let asked = Instant::now();
        let mut own = self.connect().await?;
        let nodes = own.cluster_nodes().await?;
        let Some(primary) = failed_primary(&nodes) else { return Ok(Prospect::None) };
        let info = own.info(&["replication"]).await?;
        if was_outlived(primary.heard_at, lost_at(&info, SystemTime::now())) {
            return Ok(Prospect::Outlived);
        }
        let position = position(&info);
        // All at once: each that is not there costs the same wait.
        let (opinions, is_there, outdone) = tokio::join!(
            voters::opinions_of(&primary.id, nodes.voters()),
            voters::answers_as(primary),
            is_outdone(&nodes, primary, position)
        );
        if is_there || !may_stand(&opinions) || asked.elapsed() >= STALE {
            return Ok(Prospect::None);
        }
        Ok(if outdone { Prospect::Outdone } else { Prospect::Best })
    }

    async fn tell(&self, consents: bool) -> Result<(), CallError> {
        let mut own = self.connect().await?;
        let run = own.info(&["server"]).await?.text("run_id").unwrap_or_default().to_owned();
        let value = {
            let mut state = self.shared.lock();
            state.consent = Consent(consents.then(|| (run.clone(), Instant::now() + STANDS)));
            state.consent.value(&run, Instant::now())
        };
        own.config_set(&BTreeMap::from([(PARAMETER.to_owned(), value.to_owned())])).await?;
        tracing::info!(consents, "whether this replica stands for election");
        Ok(())
    }

    async fn connect(&self) -> Result<Connection, CallError> {
        Connection::open(&Address::Unix(self.socket.clone()), ANSWER).await
    }
}

/// The primary of this replica, if this one holds it for failed.
fn failed_primary(nodes: &ClusterNodes) -> Option<&ClusterNode> {
    let own = nodes.myself().filter(|own| own.role() == Some(Role::Replica))?;
    nodes.find(own.primary.as_ref()?).filter(|primary| primary.has_failed() && !primary.slots.is_empty())
}

/// When the replica heard its primary for the last time, in milliseconds; `None` when it never did.
fn lost_at(info: &Info, now: SystemTime) -> Option<u64> {
    let ago: u64 =
        info.number("master_link_down_since_seconds").or_else(|| info.number("master_last_io_seconds_ago"))?;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis();
    u64::try_from(now).ok()?.checked_sub(ago.saturating_mul(1000))
}

/// Another replica answers that has more of the same history.
async fn is_outdone(nodes: &ClusterNodes, primary: &ClusterNode, own: Option<Position>) -> bool {
    let others = nodes.replicas_of(&primary.id).filter(|node| !node.has_flag("myself"));
    let addresses: Vec<SocketAddr> = others.filter_map(|node| node.address).collect();
    let Some(own) = own else { return false };
    let positions = voters::replication_of(addresses).await.into_iter().filter_map(|info| position(&info));
    positions.into_iter().any(|other| own.is_behind(&other))
}

/// How far a replica has followed.
pub fn position(info: &Info) -> Option<Position> {
    let replication_id = info.text("master_replid")?.to_owned();
    Some(Position { replication_id, offset: info.number("slave_repl_offset")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consent_is_for_one_process_and_a_short_time() {
        let began = Instant::now();
        let consent = Consent(Some(("a".into(), began + STANDS)));
        assert_eq!(consent.value("a", began), STAND);
        assert_eq!([consent.value("b", began), consent.value("a", began + STANDS)], [STAY, STAY]);
        assert_eq!(Consent::default().value("a", began), STAY);
    }

    #[test]
    fn a_replica_that_has_more_goes_first_and_is_not_waited_for_for_ever() {
        let (mut patience, lost) = (Patience::default(), Instant::now());
        assert!(!patience.consents(&Prospect::None, lost), "the others do not hold the primary for failed yet");
        let failed = lost + Duration::from_secs(6);
        assert!(!patience.consents(&Prospect::Outdone, failed));
        assert!(!patience.consents(&Prospect::Outdone, failed + FOR_THE_BEST - Duration::from_millis(1)));
        assert!(patience.consents(&Prospect::Outdone, failed + FOR_THE_BEST));
        assert!(Patience::default().consents(&Prospect::Best, failed));
    }

    #[test]
    fn only_a_replica_whose_primary_has_failed_with_slots_asks() {
        let of = |own: &str, primary: &str| {
            let view =
                format!("me 10.0.0.1:6379@16379 myself,{own} 0 0 1 connected\np 10.0.0.2:6379@16379 {primary}\n");
            failed_primary(&ClusterNodes::parse(&view).unwrap()).is_some()
        };
        assert!(of("slave p", "master,fail - 0 0 1 connected 0-5"));
        assert!(!of("slave p", "master,fail? - 0 0 1 connected 0-5") && !of("slave p", "master - 0 0 1 connected 0-5"));
        assert!(
            !of("slave p", "master,fail - 0 0 1 connected") && !of("master -", "master,fail - 0 0 1 connected 0-5")
        );
    }

    #[test]
    fn a_replicas_position_is_how_far_it_has_followed() {
        let info = Info::parse("role:slave\nmaster_replid:abc\nslave_repl_offset:7\nmaster_repl_offset:9\n");
        assert_eq!(position(&info), Some(Position { replication_id: "abc".into(), offset: 7 }));
        assert_eq!(position(&Info::parse("role:slave\n")), None);
    }
}
