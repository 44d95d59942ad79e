//! Failover: this replica becomes the primary of its shard.

use super::{
    execution::{Execution, Stop, Work},
    neighbour,
};
use crate::voters;
use link::contract::{Failover, FailoverMode};
use sidecar_rules::{
    commands::{
        Need, Presence,
        failover::{self, Mode},
        myself, own_port,
    },
    handover::FAILOVER_TIMEOUT,
};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, sleep};
use topology::{ClusterNodes, Position};
use valkey::{Address, CallError, Connection};

const POLL: Duration = Duration::from_millis(5);
/// While a coordinated failover cannot be won.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
const TIMEOUT: &str = "cluster-manual-failover-timeout";
/// Until then Valkey has given a coordinated failover up; to ask again earlier would hold clients back from the start.
const ONE_COORDINATED_TRY: Duration = FAILOVER_TIMEOUT.saturating_add(Duration::from_millis(300));
/// Votes come within milliseconds. One that was denied, by a primary that is not sure of its own state for a moment, is asked for
/// again only in a new election, and Valkey begins that when it is told to, or after five seconds.
const ONE_FORCED_TRY: Duration = Duration::from_millis(500);

pub async fn run(execution: &mut Execution<'_>, ordered: &Failover) -> Work {
    let wanted = ordered.mode();
    let nodes = execution.nodes().await?;
    if failover::need(&nodes)? == Need::Nothing {
        return Ok(false);
    }
    let mode = match wanted {
        FailoverMode::Coordinated => Mode::Coordinated,
        FailoverMode::Force => Mode::Force,
        FailoverMode::Takeover => Mode::Takeover,
        FailoverMode::Unspecified => return Err(Stop::invalid("mode is not given: coordinated, force or takeover")),
    };
    check(&nodes, mode).await?;
    take_in_the_rest(execution, ordered).await?;
    let address = Address::Unix(execution.context.socket.clone());
    let candidate = voters::Candidate { id: myself(&nodes)?.id.clone(), address };
    let mut first = true;
    loop {
        let able = mode == Mode::Takeover
            || voters::wait_until_able(&nodes, candidate.clone(), patience(mode), execution.until).await;
        // The primary would hold its clients back for nothing.
        if mode == Mode::Coordinated && !able {
            if execution.left() <= BETWEEN_LOOKS {
                return Err(Stop::Late("too few primaries would vote for this node".into()));
            }
            sleep(BETWEEN_LOOKS).await;
            continue;
        }
        ask(&mut execution.connect().await?, mode).await?;
        if first {
            execution.did(format!("asked to take over ({})", wanted.as_str_name()));
        }
        first = false;
        if promoted(execution, one_try(mode)).await? {
            return Ok(true);
        }
        if execution.left().is_zero() {
            return Err(Stop::Late("this node is still a replica: it was not voted for in time".into()));
        }
        // The primary may be back since the last try, and have acknowledged writes.
        check(&execution.nodes().await?, mode).await?;
    }
}

/// Compared here and not before, because what the operator knows of this node was true at its last word.
async fn take_in_the_rest(execution: &mut Execution<'_>, ordered: &Failover) -> Result<(), Stop> {
    let Some(link::contract::Position { replication_id, offset }) = ordered.at_least.clone() else { return Ok(()) };
    let needed = Position { replication_id, offset };
    loop {
        let server = execution.observe().await?;
        if failover::has_all(&server.position(), &needed, server.primary_link_up())? {
            return Ok(());
        }
        if execution.left().is_zero() {
            return Err(Stop::Late("what the primary sent before its end has not all come in".into()));
        }
        sleep(POLL).await;
    }
}

/// A coordinated failover holds clients back, so it rather waits; a forced one has nothing to lose but its first vote.
fn patience(mode: Mode) -> Duration {
    match mode {
        Mode::Coordinated => Duration::from_secs(3),
        Mode::Force | Mode::Takeover => Duration::from_millis(500),
    }
}

fn one_try(mode: Mode) -> Duration {
    match mode {
        Mode::Coordinated => ONE_COORDINATED_TRY,
        Mode::Force | Mode::Takeover => ONE_FORCED_TRY,
    }
}

async fn check(nodes: &ClusterNodes, mode: Mode) -> Result<(), Stop> {
    let presence = match failover::primary_to_ask(nodes, mode) {
        Some(primary) => neighbour::presence(primary, own_port(nodes)).await,
        None => Presence::Gone,
    };
    Ok(failover::check(nodes, mode, &presence)?)
}

async fn ask(connection: &mut Connection, mode: Mode) -> Result<(), CallError> {
    match mode {
        Mode::Force => connection.cluster_failover_force().await,
        Mode::Takeover => connection.cluster_failover_takeover().await,
        Mode::Coordinated => {
            // Not longer than the primary's: this node must not win after that one has let its clients go.
            let timeout = BTreeMap::from([(TIMEOUT.to_owned(), FAILOVER_TIMEOUT.as_millis().to_string())]);
            connection.config_set(&timeout).await?;
            connection.cluster_failover().await
        }
    }
}

async fn promoted(execution: &Execution<'_>, one_try: Duration) -> Result<bool, Stop> {
    let until = execution.until.min(Instant::now() + one_try);
    let mut connection = execution.connect().await?;
    while Instant::now() < until {
        connection.renew(execution.left().min(Duration::from_secs(2)));
        let nodes = connection.cluster_nodes().await?;
        if nodes.myself().is_some_and(|node| node.is_primary() && !node.slots.is_empty()) {
            return Ok(true);
        }
        sleep(POLL).await;
    }
    Ok(false)
}
