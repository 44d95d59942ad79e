//! Failover: this replica becomes the primary of its shard.

use super::{
    desk::{Desk, Stop, Work, myself},
    neighbour,
};
use crate::voters;
use link::contract::FailoverMode;
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

pub async fn run(desk: &mut Desk<'_>, mode: FailoverMode) -> Work {
    let nodes = desk.nodes().await?;
    let node = myself(&nodes)?;
    if node.is_primary() && !node.slots.is_empty() {
        return Ok(false);
    }
    if node.is_primary() {
        return Err(Stop::invalid("this node is not a replica, and it serves no slots"));
    }
    check(&nodes, mode).await?;
    let mut first = true;
    loop {
        if mode != FailoverMode::Takeover {
            voters::wait_until_able(&nodes, patience(mode), desk.until).await;
        }
        ask(&mut desk.connect().await?, mode).await?;
        if first {
            desk.did(format!("asked to take over ({})", mode.as_str_name()));
        }
        first = false;
        if promoted(desk, one_try(mode)).await? {
            return Ok(true);
        }
        if desk.left().is_zero() {
            return Err(Stop::Late("this node is still a replica: it was not voted for in time".into()));
        }
        // The primary may be back since the last try, and have acknowledged writes.
        check(&desk.nodes().await?, mode).await?;
    }
}

/// A coordinated failover holds clients back, so it rather waits; a forced one has nothing to lose but its first vote.
fn patience(mode: FailoverMode) -> Duration {
    match mode {
        FailoverMode::Coordinated => Duration::from_secs(3),
        _ => Duration::from_millis(500),
    }
}

fn one_try(mode: FailoverMode) -> Duration {
    match mode {
        FailoverMode::Coordinated => ONE_COORDINATED_TRY,
        _ => ONE_FORCED_TRY,
    }
}

async fn check(nodes: &ClusterNodes, mode: FailoverMode) -> Result<(), Stop> {
    match mode {
        FailoverMode::Unspecified => Err(Stop::invalid("mode is not given: coordinated, force or takeover")),
        // The primary itself agrees or not.
        FailoverMode::Coordinated => Ok(()),
        FailoverMode::Force => primary_is_gone(nodes).await,
        FailoverMode::Takeover => {
            majority_is_gone(nodes)?;
            primary_is_gone(nodes).await
        }
    }
}

/// What a primary that answers has acknowledged since its replica last heard of it would be lost.
async fn primary_is_gone(nodes: &ClusterNodes) -> Result<(), Stop> {
    let primary = myself(nodes)?.primary.as_ref().and_then(|id| nodes.find(id));
    let Some(primary) = primary else { return Ok(()) };
    let view = neighbour::answering(primary).await;
    match view.as_ref().and_then(ClusterNodes::myself).filter(|node| node.is_primary()) {
        Some(_) => Err(Stop::unsafe_because(format!("its primary {} answers: use a coordinated failover", primary.id))),
        None => Ok(()),
    }
}

fn majority_is_gone(nodes: &ClusterNodes) -> Result<(), Stop> {
    let voters = nodes.voters().count();
    let there = nodes.voters().filter(|node| node.is_sound() && node.connected).count();
    match there > voters / 2 {
        true => Err(Stop::unsafe_because(format!("{there} of {voters} primaries are there to vote: use force"))),
        false => Ok(()),
    }
}

async fn ask(connection: &mut Connection, mode: FailoverMode) -> Result<(), CallError> {
    match mode {
        FailoverMode::Force => connection.cluster_failover_force().await,
        FailoverMode::Takeover => connection.cluster_failover_takeover().await,
        FailoverMode::Coordinated | FailoverMode::Unspecified => connection.cluster_failover().await,
    }
}

async fn promoted(desk: &Desk<'_>, one_try: Duration) -> Result<bool, Stop> {
    let until = desk.until.min(Instant::now() + one_try);
    let mut connection = desk.connect().await?;
    while Instant::now() < until {
        connection.renew(desk.left().min(Duration::from_secs(2)));
        let nodes = connection.cluster_nodes().await?;
        if nodes.myself().is_some_and(|node| node.is_primary() && !node.slots.is_empty()) {
            return Ok(true);
        }
        sleep(POLL).await;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_flags(flags: [&str; 3]) -> ClusterNodes {
        let lines = ["0-5", "6-9", "10-12"].iter().zip(flags).enumerate();
        let lines = lines.map(|(index, (slots, flags))| {
            format!("n{index} 10.0.0.{index}:6379@16379 master{flags} - 0 0 {index} connected {slots}\n")
        });
        ClusterNodes::parse(&lines.collect::<String>()).unwrap()
    }

    #[test]
    fn nobody_takes_over_by_himself_while_a_majority_can_vote() {
        assert!(majority_is_gone(&with_flags(["", "", ""])).is_err());
        assert!(majority_is_gone(&with_flags([",fail", "", ""])).is_err());
        assert!(majority_is_gone(&with_flags([",fail?", ",fail?", ""])).is_ok());
        assert!(majority_is_gone(&with_flags([",fail?", ",fail?", ",fail"])).is_ok());
    }
}
