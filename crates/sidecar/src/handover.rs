//! Before a pod stops: a primary passes its role to its best replica, as `sidecar_rules::handover` decides. IO; needs no operator,
//! only the two nodes.

mod one_try;

use crate::{boot::StopNotes, state::Shared, stop_mark, voters};
use one_try::{Nodes, Try};
use sidecar_rules::handover::{
    AttachedReplica, Candidate, CandidateState, FAILOVER_TIMEOUT, NotTaken, Outcome, Standing, may_take_over,
    nobody_took_over,
};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use topology::{ClusterNodes, Role};
use valkey::{Address, CallError, Connection, Info};

/// One answer of a node, here or on the other side.
const CALL_DEADLINE: Duration = Duration::from_secs(2);
/// Primaries that are being restarted themselves.
const PATIENCE_WITH_VOTERS: Duration = Duration::from_secs(3);
/// Slots that are on their way to another primary.
const PATIENCE_WITH_MOVES: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
const TIMEOUT: &str = "cluster-manual-failover-timeout";

pub struct HandOver {
    socket: PathBuf,
    notes: StopNotes,
    shared: Shared,
    deadline: Duration,
    /// The kubelet may ask twice; the second waits for the first and then finds a replica.
    turn: Mutex<()>,
}

/// Withdraws what was announced about a stop that does not come; the newest is waited for. Once, and not by checking the volume all the
/// time: it may hang.
async fn take_back(shared: Shared, run_id: String, notes: StopNotes) {
    sleep(stop_mark::LONGEST).await;
    if !shared.lock().stop_mark.stands(&run_id, Instant::now()) {
        shared.ask_for_review();
        notes.withdraw_if_outlived().await;
    }
}

impl HandOver {
    pub fn new(socket: PathBuf, notes: StopNotes, shared: Shared, deadline: Duration) -> Self {
        Self { socket, notes, shared, deadline, turn: Mutex::new(()) }
    }

    /// Returns when this node is a replica, when there is nothing to hand over, or when the deadline has passed.
    pub async fn run(&self) -> Outcome {
        if let Err(error) = self.say_that_it_stops().await {
            return Outcome::Unreachable(error.to_string());
        }
        let outcome = self.until_done().await;
        if !matches!(outcome, Outcome::Unreachable(_)) {
            self.leave_note().await;
        }
        outcome
    }

    /// Before anything else, so that no node that stops too hands over to this one, or hands back what it got from it.
    async fn say_that_it_stops(&self) -> Result<(), CallError> {
        let stopping = BTreeMap::from([(stop_mark::PARAMETER.to_owned(), stop_mark::STOPPING.to_owned())]);
        let mut own = self.connect().await?;
        let said = match self.mark(&mut own).await {
            Ok(_) => own.config_set(&stopping).await,
            Err(error) => Err(error),
        };
        // A review that began before may have put it back.
        self.shared.ask_for_review();
        match said {
            Err(error) if error.refusal().is_some() => {
                tracing::warn!(error = link::sentence::of(&error), "could not tell the others that this node stops");
                Ok(())
            }
            said => said,
        }
    }

    /// From now on the mark is held for the process that runs; which one that is.
    async fn mark(&self, own: &mut Connection) -> Result<String, CallError> {
        let run_id = own.info(&["server"]).await?.text("run_id").unwrap_or_default().to_owned();
        self.shared.lock().stop_mark.ask(&run_id, Instant::now() + stop_mark::LONGEST);
        Ok(run_id)
    }

    /// For the gate at the next start: if Valkey ends in order now, what it saves is complete.
    async fn leave_note(&self) {
        let own = async {
            let mut own = self.connect().await?;
            Ok::<_, CallError>((own.cluster_my_id().await?, self.mark(&mut own).await?))
        };
        let Ok((node_id, run_id)) = own.await else { return };
        let written = self.notes.leave(node_id.to_string(), CALL_DEADLINE).await;
        // One that was not written in time may be written yet.
        drop(tokio::spawn(take_back(self.shared.clone(), run_id, self.notes.clone())));
        if let Err(error) = written {
            tracing::warn!(error = link::sentence::of(&error), "could not note that this node stops in order");
        }
    }

    async fn until_done(&self) -> Outcome {
        let until = Instant::now() + self.deadline;
        let Ok(_turn) = tokio::time::timeout_at(until, self.turn.lock()).await else {
            return Outcome::Failed("another hand-over did not end in time".into());
        };
        // Slots that go meanwhile take a new epoch, as the successor does.
        let _stopped = self.shared.slot_moves.stop(PATIENCE_WITH_MOVES.min(self.deadline / 4)).await;
        let mut failure = None;
        while Instant::now() < until {
            match self.attempt(until).await {
                Ok(outcome) => return outcome,
                Err(reason) => {
                    tracing::warn!(%reason, "a hand-over did not succeed, trying again");
                    failure = Some(reason);
                    sleep(POLL * 10).await;
                }
            }
        }
        Outcome::Failed(failure.unwrap_or_else(|| "the deadline passed".into()))
    }

    /// `Err` is worth another try.
    async fn attempt(&self, until: Instant) -> Result<Outcome, String> {
        let candidates = match self.standing().await.map(Standing::candidates) {
            Err(error) => return Ok(Outcome::Unreachable(error.to_string())),
            Ok(Err(outcome)) => return Ok(outcome),
            Ok(Ok(candidates)) => candidates,
        };
        let nodes = self.nodes().await.map_err(|error| error.to_string())?;
        let mut tried = Vec::new();
        for candidate in candidates {
            // The primary holds its clients back during a failover: it is not begun before it can succeed.
            if !can_win(&nodes, &candidate, until).await {
                tried.push((candidate.name(), NotTaken::Because("too few primaries would vote for it".into())));
                continue;
            }
            match self.give_to(&candidate, &nodes).await {
                Ok(()) => return Ok(Outcome::HandedOver { to: candidate.name() }),
                Err(not_taken) => tried.push((candidate.name(), not_taken)),
            }
        }
        nobody_took_over(tried)
    }

    async fn standing(&self) -> Result<Standing, CallError> {
        let mut own = self.connect().await?;
        let info = own.info(&["replication", "cluster"]).await?;
        if !info.flag("cluster_enabled") {
            return Ok(Standing::Standalone);
        }
        Ok(Standing::of(info.is_replica(), &own.cluster_nodes().await?, &attached(&info)))
    }

    async fn nodes(&self) -> Result<ClusterNodes, CallError> {
        self.connect().await?.cluster_nodes().await
    }

    async fn give_to(&self, candidate: &Candidate, nodes: &ClusterNodes) -> Result<(), NotTaken> {
        let reason = |error: CallError| NotTaken::Because(error.to_string());
        let mut replica = Connection::open(&Address::Tcp(candidate.address), CALL_DEADLINE).await.map_err(reason)?;
        let info = replica.info(&["replication"]).await.map_err(reason)?;
        may_take_over(CandidateState {
            is_replica: info.is_replica(),
            link_up: info.text("master_link_status") == Some("up"),
            stopping: info.text("slave_priority") == Some(stop_mark::STOPPING),
        })?;
        self.bound_pause(&mut replica).await.map_err(reason)?;
        let mut both = BothNodes { own: self, replica, candidate, nodes };
        Try::run(&mut both).await.map_err(NotTaken::Because)
    }

    /// The replica first: its time must not be longer than the primary's.
    async fn bound_pause(&self, replica: &mut Connection) -> Result<(), CallError> {
        let timeout = BTreeMap::from([(TIMEOUT.to_owned(), FAILOVER_TIMEOUT.as_millis().to_string())]);
        replica.config_set(&timeout).await?;
        self.connect().await?.config_set(&timeout).await
    }

    async fn connect(&self) -> Result<Connection, CallError> {
        Connection::open(&Address::Unix(self.socket.clone()), CALL_DEADLINE).await
    }
}

async fn can_win(nodes: &ClusterNodes, candidate: &Candidate, until: Instant) -> bool {
    let candidate = voters::Candidate { id: candidate.id.clone(), address: Address::Tcp(candidate.address) };
    voters::wait_until_able(nodes, candidate, PATIENCE_WITH_VOTERS, until).await
}

struct BothNodes<'a> {
    own: &'a HandOver,
    /// What it was asked over this connection may be answered late.
    replica: Connection,
    candidate: &'a Candidate,
    /// As this node sees them.
    nodes: &'a ClusterNodes,
}

impl Nodes for BothNodes<'_> {
    async fn ask_replica(&mut self) -> Result<(), CallError> {
        self.replica.renew(CALL_DEADLINE);
        self.replica.cluster_failover().await
    }

    async fn role_of_replica(&mut self) -> Option<Role> {
        Connection::open(&Address::Tcp(self.candidate.address), CALL_DEADLINE).await.ok()?.role().await.ok()
    }

    async fn is_handed_over(&mut self) -> bool {
        self.own.standing().await.is_ok_and(|standing| standing.is_handed_over())
    }

    async fn hold_writes(&mut self, longest: Duration) -> Result<(), CallError> {
        self.own.connect().await?.hold_writes(longest).await
    }

    async fn release_writes(&mut self) -> Result<(), CallError> {
        self.own.connect().await?.resume_writes().await
    }

    async fn newest_if_nobody_follows(&mut self) -> Option<u64> {
        voters::newest_if_nobody_follows(self.nodes, &self.candidate.id).await
    }

    async fn outbid(&mut self, epoch: u64) -> Result<bool, CallError> {
        let mut own = self.own.connect().await?;
        own.cluster_bump_epoch().await?;
        Ok(own.cluster_info().await?.my_epoch > epoch)
    }
}

fn attached(info: &Info) -> Vec<AttachedReplica> {
    let attached = info.attached_replicas().into_iter().map(|replica| AttachedReplica {
        address: replica.address,
        online: replica.online,
        offset: replica.offset,
        lag_seconds: replica.lag_seconds,
    });
    attached.collect()
}
