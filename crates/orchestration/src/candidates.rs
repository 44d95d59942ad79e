//! Which replica of a dead primary takes over, and which of them have what it had. Pure; used by the failover.

use crate::deaths::Death;
use crate::limits::{self, age};
use crate::observation::{Following, NodeFacts};
use crate::picture::{Member, Picture};
use jiff::Timestamp;
use std::cmp::Reverse;

/// Replicas of the dead primary that may take over, the best first.
pub(crate) fn candidates<'a>(picture: &Picture<'a>, death: &Death) -> Vec<Member<'a>> {
    let history = picture.recorded_shard(&death.id).and_then(|shard| shard.replication_id.as_ref());
    let same = |member: &Member| {
        history.is_some() && member.facts().and_then(|facts| facts.replication_id.as_ref()) == history
    };
    let offset = |member: &Member| member.facts().map_or(0, |facts| facts.replication_offset);
    let mut able = picture.replicas_of(&death.id);
    able.retain(|member| member.belongs() && !member.facts().is_some_and(|facts| facts.loading));
    able.retain(|member| same(member) || offset(member) > 0);
    let newest = able.iter().filter_map(|member| last_followed(picture, member.facts()?)).max();
    let behind = |member: &Member| member.facts().is_some_and(|facts| is_behind(picture, facts, newest));
    // One that is about to end comes after the others, unless those stopped following long before it.
    able.sort_by_key(|member| {
        (behind(member), member.pod.terminating, !same(member), Reverse(offset(member)), member.name().clone())
    });
    able
}

fn last_followed(picture: &Picture, facts: &NodeFacts) -> Option<Timestamp> {
    match facts.following {
        Following::Now => Some(picture.now),
        Following::Until(lost) => Some(lost),
        Following::Never | Following::Untold => None,
    }
}

/// Another followed for longer. Of one that was restarted only its offset can tell.
fn is_behind(picture: &Picture, facts: &NodeFacts, newest: Option<Timestamp>) -> bool {
    let own = last_followed(picture, facts).zip(newest);
    own.is_some_and(|(own, newest)| age(newest, own) >= at_the_end(picture))
}

/// Candidates that followed the primary until it died, so they have what it had.
pub(crate) fn continuous<'a>(picture: &Picture<'a>, death: &Death) -> Vec<Member<'a>> {
    let mut able = candidates(picture, death);
    able.retain(|member| member.facts().is_some_and(|facts| followed_to_the_end(picture, facts, death)));
    able
}

fn followed_to_the_end(picture: &Picture, facts: &NodeFacts, death: &Death) -> bool {
    match facts.following {
        Following::Now => true,
        Following::Never => false,
        Following::Until(lost) => death.since.is_some_and(|since| age(since, lost) < at_the_end(picture)),
        Following::Untold => {
            let since = death.since.unwrap_or(picture.now);
            facts.started_at.is_none_or(|started| age(since, started) >= limits::TOGETHER)
        }
    }
}

/// A primary that is cut off serves for another node timeout, and what it then acknowledges its replica does not have.
fn at_the_end(picture: &Picture) -> std::time::Duration {
    picture.wanted.node_timeout + limits::TOGETHER
}
