//! When a replica may be told to take over: its primary is dead, and whatever that may bring back the replica has too. Pure.

use super::{Verdict, answering, answers, boot, ensure, is_missed, is_recorded, named_after, recorded_in, views};
use crate::nodes::{
    Action, Boot, FailoverMode, Following, NodeFacts, NodeObservation, Outcome, PodObservation, ShardNode, Target,
    Valkey,
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use topology::{NodeId, NodeView, Position, Role, ViewedNode};

pub(super) fn failover(
    pod: &PodObservation,
    mode: FailoverMode,
    bound: Option<&Position>,
    target: &Target,
    seen: &NodeObservation,
) -> Verdict {
    ensure(mode != FailoverMode::Takeover, "taking over without a vote is a human's decision")?;
    let facts = answers(pod).ok_or("it does not answer")?;
    let primary = facts.primary.as_ref().filter(|_| facts.role == Role::Replica).ok_or("it is no replica")?;
    if mode == FailoverMode::Coordinated {
        return Ok(());
    }
    ensure(!answering(seen).any(|(_, other)| other.node_id == *primary), "its primary answers")?;
    ensure(is_dead(primary, seen), "nobody who knows says that its primary is dead")?;
    let with_data = |boot: &Boot| boot.has_data && boot.last_node_id.as_ref() == Some(primary);
    let waits = seen.pods.iter().filter_map(boot).any(with_data);
    ensure(!(waits && facts.following == Following::Never), "it was restarted, and its primary waits with its data")?;
    let missed = facts.following == Following::Never && is_shard_missed(primary, target, seen);
    ensure(!missed, "it was restarted, and a node of its shard that is not heard may have more")?;
    let older = is_kept(primary, target, seen) && end(primary, seen).is_some_and(|end| lags(facts, end, target));
    ensure(!older, "it stopped following before its primary did, which may come back with more")?;
    if let Some(last) = last_seen(primary, target, seen) {
        ensure(bound == Some(last), "it is not told how far its primary was seen")?;
        ensure(!stopped_before(facts, last), "its primary was seen to have more, and may come back with it")?;
    }
    let better =
        answering(seen).any(|(other, rival)| rival.primary.as_ref() == Some(primary) && is_better(other, rival, facts));
    ensure(!better, "another replica has more of the data")
}

/// Beside the primary another node on record may have what it had, and does not answer.
fn is_shard_missed(primary: &NodeId, target: &Target, seen: &NodeObservation) -> bool {
    let is_it = |node: &ShardNode| node.node_id == *primary;
    let shard = seen.recorded.iter().find(|shard| shard.nodes.iter().any(is_it));
    shard.is_some_and(|shard| shard.nodes.iter().any(|node| !is_it(node) && is_missed(node, target, seen)))
}

/// Its volume is there whatever becomes of the pod, or the pod is there whose emptyDir has its data.
fn is_kept(id: &NodeId, target: &Target, seen: &NodeObservation) -> bool {
    let mut recorded = seen.recorded.iter().flat_map(|shard| &shard.nodes).filter(|node| node.node_id == *id);
    let place = recorded.next();
    let was_here = |pod: &PodObservation| match &pod.valkey {
        Valkey::Down { node_id: Some(last), .. } if pod.connected => last == id,
        Valkey::Waiting(boot) if pod.connected => boot.last_node_id.as_ref() == Some(id),
        _ => place.is_some_and(|node| node.pod == pod.name && node.pod_uid.as_ref().is_none_or(|uid| *uid == pod.uid)),
    };
    target.persistent || seen.pods.iter().any(was_here)
}

/// How far the sidecar beside it saw it come, unless it comes back with nothing or its sidecar says that others have more.
fn last_seen<'s>(id: &NodeId, target: &Target, seen: &'s NodeObservation) -> Option<&'s Position> {
    let was_it = |pod: &&PodObservation| match &pod.valkey {
        Valkey::Down { node_id: Some(last), .. } => last == id,
        Valkey::Down { node_id: None, .. } => recorded_in(pod, id, seen),
        Valkey::Waiting(boot) => boot.last_node_id.as_ref() == Some(id) && brings_data(boot),
        Valkey::Answers(_) | Valkey::Unknown => false,
    };
    let pod = seen.pods.iter().filter(|pod| pod.connected).find(was_it)?;
    pod.last_position.as_ref().filter(|_| is_kept(id, target, seen))
}

/// It would load what others may not have.
fn brings_data(boot: &Boot) -> bool {
    boot.has_data && boot.better_copy.is_none()
}

/// Nothing more can come to it, and it was not that far in this history.
fn stopped_before(facts: &NodeFacts, last: &Position) -> bool {
    let ended = matches!(facts.following, Following::Until(_) | Following::Never);
    ended && facts.replication_id.as_deref() == Some(&last.replication_id) && facts.replication_offset < last.offset
}

/// When a primary that may come back with its data was last known to run; unknown is None inside. Not of one that waits to start with
/// nothing or with less than others have, or whose pod runs another node.
fn end(id: &NodeId, seen: &NodeObservation) -> Option<Option<Timestamp>> {
    let pod = seen.pods.iter().find(|pod| match &pod.valkey {
        Valkey::Down { node_id: Some(last), .. } if pod.connected => last == id,
        Valkey::Waiting(boot) if pod.connected => boot.last_node_id.as_ref() == Some(id),
        _ => recorded_in(pod, id, seen),
    });
    match pod.map(|pod| (pod, &pod.valkey)) {
        Some((pod, Valkey::Waiting(boot))) if pod.connected => brings_data(boot).then_some(Some(boot.since)),
        Some((pod, Valkey::Answers(_))) if pod.connected => None,
        Some((pod, Valkey::Down { since, .. })) if pod.connected => Some(Some(*since)),
        Some((pod, _)) => Some(pod.last_answer),
        None => is_recorded(id, seen).then_some(None),
    }
}

/// It does not follow, and did not until about then. A primary that is cut off serves for another node timeout.
fn lags(facts: &NodeFacts, end: Option<Timestamp>, target: &Target) -> bool {
    let close = |lost: Timestamp| end.is_some_and(|end| end.duration_since(lost) < tolerance(target));
    match facts.following {
        Following::Never => true,
        Following::Until(lost) => !close(lost),
        Following::Now | Following::Unknown => false,
    }
}

fn tolerance(target: &Target) -> SignedDuration {
    let limit = target.node_timeout + Duration::from_secs(2);
    SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX)
}

/// It can take over now, has the same history, and more of it.
fn is_better(pod: &PodObservation, rival: &NodeFacts, chosen: &NodeFacts) -> bool {
    let refused = pod.answer.as_ref().is_some_and(|answer| {
        matches!(answer.action, Action::Failover(..)) && !matches!(answer.outcome, Outcome::Done)
    });
    let able = rival.role == Role::Replica && !rival.loading && !pod.is_busy() && !pod.terminating && !refused;
    let comparable = rival.replication_id.is_some() && rival.replication_id == chosen.replication_id;
    able && comparable && rival.replication_offset > chosen.replication_offset
}

/// By the sidecar beside it, by the pod that now runs another node, or by most primaries' word.
fn is_dead(id: &NodeId, seen: &NodeObservation) -> bool {
    let recorded = |pod: &PodObservation| recorded_in(pod, id, seen);
    let attested = seen.pods.iter().any(|pod| match &pod.valkey {
        _ if !pod.connected => false,
        Valkey::Down { node_id, .. } => node_id.as_ref() == Some(id) || node_id.is_none() && recorded(pod),
        Valkey::Waiting(boot) => boot.last_node_id.as_ref() == Some(id),
        Valkey::Answers(_) => recorded(pod) || named_after(pod, id, seen),
        Valkey::Unknown => false,
    });
    let has_a_vote = |view: &&NodeView| view.myself().is_some_and(is_owner);
    let accuses = |view: &&NodeView| view.get(id).is_some_and(|node| node.failing);
    attested || views(seen).filter(has_a_vote).filter(accuses).count() > owners(seen) / 2
}

fn is_owner(node: &ViewedNode) -> bool {
    node.role == Role::Primary && !node.slots.is_empty()
}

/// How many owners of slots there are by the record, or by whoever knows of more: those that are not heard count too.
fn owners(seen: &NodeObservation) -> usize {
    let known = views(seen).map(|view| view.nodes.iter().filter(|node| is_owner(node)).count()).max();
    let recorded = seen.recorded.iter().filter(|shard| !shard.slots.is_empty()).count();
    known.unwrap_or_default().max(recorded)
}
