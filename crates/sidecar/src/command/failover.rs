//! Failover: this replica becomes the primary of its shard.

use super::{
    execution::{Execution, Stop, Work},
    neighbour,
};
use crate::voters;
use link::contract::FailoverMode;
use sidecar_rules::commands::{
    Need,
    failover::{self, Mode},
};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use topology::ClusterNodes;
use valkey::{CallError, Connection};

const POLL: Duration = Duration::from_millis(5);
/// Valkey gives a coordinated failover up after five seconds; to ask again earlier would hold clients back from the start.
const ONE_COORDINATED_TRY: Duration = Duration::from_millis(5_300);
/// Votes come within milliseconds. One that was denied, by a primary that is not sure of its own state for a moment, is asked for
/// again only in a new election, and Valkey begins that when it is told to, or after five seconds.
const ONE_FORCED_TRY: Duration = Duration::from_millis(500);

pub async fn run(execution: &mut Execution<'_>, wanted: FailoverMode) -> Work {
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
    let mut first = true;
    loop {
        if mode != Mode::Takeover {
            voters::wait_until_able(&nodes, patience(mode), execution.until).await;
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
    let answer = match failover::primary_to_ask(nodes, mode) {
        Some(primary) => neighbour::answering(primary).await,
        None => None,
    };
    Ok(failover::check(nodes, mode, answer.as_ref())?)
}

async fn ask(connection: &mut Connection, mode: Mode) -> Result<(), CallError> {
    match mode {
        Mode::Force => connection.cluster_failover_force().await,
        Mode::Takeover => connection.cluster_failover_takeover().await,
        Mode::Coordinated => connection.cluster_failover().await,
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
