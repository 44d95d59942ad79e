//! Whether a Valkey that wants to start may, and as what. Pure; asked again whenever a fact changes.
//!
//! A primary that comes back without its data within the node timeout is still the primary for everybody, and its replicas
//! throw their copies away to follow it. So a primary with slots that did not end in order waits until another has its
//! slots, or until it is sure that waiting longer saves nothing. The operator may let it through earlier, but not over a better
//! copy that answers: it does not see which data this node would load.

use super::{
    past::{Past, PastNode, Peer},
    peer_answer::{Copy, Followed, PeerAnswer, Successor},
};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};
use topology::{NodeId, Role};

/// As what a Valkey starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With its nodes.conf and data.
    AsIs,
    /// As a new, empty node.
    Fresh,
}

/// What Valkey would load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    Nothing,
    /// Of some moment in the past.
    Snapshot,
    /// Written along, and perhaps without its end: the kernel had not written it to the disk when the machine failed.
    UnsyncedJournal,
    /// Written along, a second behind at most.
    Journal,
}

impl Data {
    pub fn is_journal(self) -> bool {
        matches!(self, Self::UnsyncedJournal | Self::Journal)
    }
}

#[derive(Clone, Debug)]
pub struct Facts {
    pub past: Past,
    pub data: Data,
    /// Of a snapshot or an unsynced journal: what was written before that is in it, by this node's clock.
    pub complete_until: Option<SystemTime>,
    /// When its process ended, or at the earliest, by this node's clock; `None` when nobody knows.
    pub ended: Option<SystemTime>,
    /// It stopped in order, and all it had was written: see `stopped_in_order`.
    pub clean_stop: bool,
    /// By node id, the last answer of each since the wait began; those that gave none are absent.
    pub answers: BTreeMap<NodeId, PeerAnswer>,
    /// How long they have been asked.
    pub asked: Duration,
    /// What the operator asks for.
    pub ordered: Option<Start>,
    pub waited: Duration,
    /// After this the cluster had its chance to vote for another.
    pub patience: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// `concede`: first give up the epoch under which it served its slots, so that it cannot win them back.
    Open {
        start: Start,
        concede: bool,
        reason: String,
    },
    Wait {
        reason: String,
    },
}

/// How long replicas have to answer before an order is obeyed that could overrule them; an order lasts a little longer.
const TIME_TO_ANSWER: Duration = Duration::from_millis(1_500);
/// A replica loses its link together with the process, but reports it in whole seconds and by its own clock. What a snapshot has
/// was written before it was completed, so giving a replica this much too much credit loses nothing.
const ROUNDING: Duration = Duration::from_secs(2);

/// The Valkey was asked to stop and did so by itself, and what it would load was written after that: on SIGTERM Valkey saves,
/// unless it is configured not to, and syncs its journal. `asked`: `None` also when it did not end by itself.
pub fn stopped_in_order(asked: Option<SystemTime>, data: Data, snapshot_written: Option<SystemTime>) -> bool {
    asked.is_some_and(|asked| match data {
        Data::Nothing => false,
        Data::Snapshot => snapshot_written.is_some_and(|written| written >= asked),
        Data::UnsyncedJournal | Data::Journal => true,
    })
}

pub fn decide(facts: &Facts) -> Decision {
    match (facts.ordered, &facts.past) {
        (Some(Start::Fresh), _) => obey(Start::Fresh),
        (Some(Start::AsIs), Past::Node(node)) => start_as_is(node, facts),
        (_, Past::Unknown) => open("it has no past: it joins nothing by itself"),
        (_, Past::Damaged(reason)) => {
            wait(format!("nodes.conf is damaged ({reason}): Valkey would not start with it; it can only start afresh"))
        }
        (_, Past::Node(node)) => decide_for(node, facts),
    }
}

/// What it would do by itself comes first: if it has a successor it gives way to that one, with or without an order.
fn start_as_is(node: &PastNode, facts: &Facts) -> Decision {
    match decide_for(node, facts) {
        Decision::Wait { .. } => objection(node, facts).map_or_else(|| obey(Start::AsIs), wait),
        open => open,
    }
}

/// Why an order to start as is is not obeyed: this node would immediately be the primary again, and its replicas would throw away
/// what they have; one of them may even serve its slots by now.
fn objection(node: &PastNode, facts: &Facts) -> Option<String> {
    if let Some(replica) = better_copy(facts) {
        return Some(format!("replica {replica} has what this node would not load: it has to take over first"));
    }
    let heard = asked_first(node, facts).all(|replica| facts.answers.contains_key(&replica.id));
    (!heard && facts.asked < TIME_TO_ANSWER)
        .then(|| "it was a primary: its replicas are asked first what they have".to_owned())
}

/// What a former primary has is older than anything this node would load, and better than nothing.
fn asked_first<'a>(node: &'a PastNode, facts: &Facts) -> impl Iterator<Item = &'a Peer> {
    let nothing = facts.data == Data::Nothing;
    node.copies().filter(move |peer| peer.replica_of_mine || nothing)
}

fn decide_for(node: &PastNode, facts: &Facts) -> Decision {
    if node.role != Role::Primary {
        return open("it was a replica");
    }
    if node.slots.is_empty() {
        return open("it served no slots");
    }
    if asked_first(node, facts).next().is_none() {
        return open("it had no replica: there is no better copy");
    }
    if facts.clean_stop {
        return open("it stopped in order with all its data");
    }
    match facts.answers.values().find_map(|answer| answer.successor.as_ref()) {
        Some(Successor { name, outranks }) => {
            let reason = format!("{name} serves its slots now: it will follow");
            Decision::Open { start: Start::AsIs, concede: !outranks, reason }
        }
        None => without_successor(node, facts),
    }
}

fn without_successor(node: &PastNode, facts: &Facts) -> Decision {
    let over = facts.waited >= facts.patience;
    match facts.data {
        Data::Nothing if over && no_copy_has_data(node, facts) => open("no copy of its slots holds any data"),
        Data::Nothing => wait("it was a primary and its data is gone: one of its replicas has to take over first"),
        Data::Snapshot | Data::UnsyncedJournal => match (better_copy(facts), silent(node, facts).next()) {
            (Some(replica), _) => {
                wait(format!("replica {replica} has what this node may lack, and has to take over first"))
            }
            (None, None) => open("no replica has what it would not load"),
            (None, Some(_)) if !over => {
                wait("it was a primary that did not stop in order: its replicas get the time to take over")
            }
            (None, Some(_)) => match silent(node, facts).find(|replica| !replica.unlisted) {
                Some(replica) => wait(silent_text(replica)),
                None => open("nobody took over and no better copy answers"),
            },
        },
        Data::Journal if over => open("nobody took over, and its append-only file has its data"),
        Data::Journal if nobody_followed(node, facts) => {
            open("no replica that answers followed it to its end, and its append-only file has its data")
        }
        Data::Journal => wait("it was a primary that did not stop in order: its replicas get the time to take over"),
    }
}

/// Whoever took over would do so with an older copy, so the node comes back before one does. Who gives no answer has no more than
/// the journal.
fn nobody_followed(node: &PastNode, facts: &Facts) -> bool {
    let mut copies = node.replicas().filter_map(|replica| copy_of(replica, facts)).peekable();
    let asked = silent(node, facts).next().is_none() || facts.asked >= TIME_TO_ANSWER;
    asked && copies.peek().is_some() && !copies.any(|copy| followed_to_the_end(copy, facts))
}

/// Replicas that have not said what they hold. One that follows another by now holds nothing of this node's.
fn silent<'a>(node: &'a PastNode, facts: &Facts) -> impl Iterator<Item = &'a Peer> {
    let said = |replica: &&Peer| facts.answers.get(&replica.id).is_some_and(|answer| !answer.loads);
    node.replicas().filter(move |replica| !said(replica))
}

fn silent_text(replica: &Peer) -> String {
    let name = replica.hostname.as_deref().and_then(|name| name.split('.').next());
    format!(
        "replica {} gives no answer, and may have what this node would not load: it is waited for until another node runs in its pod, \
         or the operator says that it is gone",
        name.unwrap_or(replica.id.as_str())
    )
}

fn copy_of(peer: &Peer, facts: &Facts) -> Option<Copy> {
    facts.answers.get(&peer.id)?.copy
}

fn followed_to_the_end(copy: Copy, facts: &Facts) -> bool {
    copy.keys > 0 && !copy.short && followed_after(copy, facts.ended)
}

fn no_copy_has_data(node: &PastNode, facts: &Facts) -> bool {
    let keys = |id: &NodeId| facts.answers.get(id).and_then(|answer| answer.copy).map(|copy| copy.keys);
    // A replica that was not one of the cluster's nodes may have followed from anywhere: if it does not answer, it is not waited for.
    node.copies().all(|copy| keys(&copy.id).map_or(copy.unlisted, |keys| keys == 0))
}

/// A replica that answers and has what this node would not load. Anything is better than nothing; than a snapshot, what was followed
/// beyond it; than a journal, nothing.
pub fn better_copy(facts: &Facts) -> Option<&NodeId> {
    let is_better = |copy: Copy| {
        let more = match facts.data {
            Data::Nothing => true,
            Data::Snapshot | Data::UnsyncedJournal => followed_after(copy, facts.complete_until),
            Data::Journal => false,
        };
        more && copy.keys > 0
    };
    let better = facts.answers.iter().find(|(_, answer)| answer.copy.is_some_and(is_better));
    better.map(|(id, _)| id)
}

fn followed_after(copy: Copy, moment: Option<SystemTime>) -> bool {
    match copy.followed {
        Followed::Never => false,
        Followed::Until(lost) => moment.is_none_or(|moment| lost + ROUNDING >= moment),
        Followed::Still => true,
    }
}

fn obey(start: Start) -> Decision {
    Decision::Open { start, concede: false, reason: "the operator lets it through".into() }
}

fn open(reason: impl Into<String>) -> Decision {
    Decision::Open { start: Start::AsIs, concede: false, reason: reason.into() }
}

fn wait(reason: impl Into<String>) -> Decision {
    Decision::Wait { reason: reason.into() }
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
