//! Which replica of a dead primary takes over, and which of them have what it had. Pure; used by the failover.

use super::cluster_model::{ClusterModel, Member};
use super::limits::{self, age};
use super::node_failures::NodeFailure;
use super::observation::{Following, NodeFacts};
use jiff::Timestamp;
use std::cmp::Reverse;
use topology::Position;

/// Replicas of the dead primary that may take over, the best first.
pub(crate) fn candidates<'a>(model: &ClusterModel<'a>, failure: &NodeFailure) -> Vec<Member<'a>> {
    let history = model.recorded_shard(&failure.id).and_then(|shard| shard.replication_id.as_ref());
    let same = |member: &Member| {
        history.is_some() && member.facts().and_then(|facts| facts.replication_id.as_ref()) == history
    };
    let offset = |member: &Member| member.facts().map_or(0, |facts| facts.replication_offset);
    let mut able = model.replicas_of(&failure.id);
    able.retain(|member| member.belongs() && !member.facts().is_some_and(|facts| facts.loading));
    able.retain(|member| same(member) || offset(member) > 0);
    let newest = able.iter().filter_map(|member| last_followed(model, member.facts()?)).max();
    let behind = |member: &Member| member.facts().is_some_and(|facts| is_behind(model, facts, newest));
    // One that is about to end comes after the others, unless those stopped following long before it.
    able.sort_by_key(|member| {
        (behind(member), member.pod.terminating, !same(member), Reverse(offset(member)), member.name().clone())
    });
    able
}

fn last_followed(model: &ClusterModel, facts: &NodeFacts) -> Option<Timestamp> {
    match facts.following {
        Following::Now => Some(model.now),
        Following::Until(lost) => Some(lost),
        Following::Never | Following::Unknown => None,
    }
}

/// Another followed for longer. Of one that was restarted only its offset can tell.
fn is_behind(model: &ClusterModel, facts: &NodeFacts, newest: Option<Timestamp>) -> bool {
    let own = last_followed(model, facts).zip(newest);
    own.is_some_and(|(own, newest)| age(newest, own) >= at_the_end(model))
}

/// Candidates that followed the primary until it died, so they have what it had.
pub(crate) fn continuous<'a>(model: &ClusterModel<'a>, failure: &NodeFailure) -> Vec<Member<'a>> {
    let mut able = candidates(model, failure);
    able.retain(|member| member.facts().is_some_and(|facts| followed_to_the_end(model, facts, failure)));
    able
}

fn followed_to_the_end(model: &ClusterModel, facts: &NodeFacts, failure: &NodeFailure) -> bool {
    match facts.following {
        Following::Now => true,
        Following::Never => false,
        Following::Until(lost) => {
            failure.since.is_some_and(|since| age(since, lost) < at_the_end(model)) && !is_short(facts, failure)
        }
        Following::Unknown => {
            let since = failure.since.unwrap_or(model.now);
            facts.started_at.is_none_or(|started| age(since, started) >= limits::TOGETHER)
        }
    }
}

/// Its primary was seen further in the same history. Without a link nothing more comes, so what it told is all it has; with one,
/// what it told is old already, and its sidecar compares once more before it obeys.
fn is_short(facts: &NodeFacts, failure: &NodeFailure) -> bool {
    let same = |last: &&Position| facts.replication_id.as_ref() == Some(&last.replication_id);
    failure.last_position().filter(same).is_some_and(|last| facts.replication_offset < last.offset)
}

/// A primary that is cut off serves for another node timeout, and what it then acknowledges its replica does not have.
fn at_the_end(model: &ClusterModel) -> std::time::Duration {
    model.target.node_timeout + limits::TOGETHER
}
