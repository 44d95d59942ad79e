//! Before a pod stops: whether there is something to hand over and to whom, when clients' writes are held back, and what came of
//! it. Pure.

mod candidates;

pub use candidates::{AttachedReplica, Candidate, Standing};

use std::{fmt, time::Duration};

/// After this Valkey gives a failover up and lets the primary's clients write again (`cluster-manual-failover-timeout`). On a
/// replica it must not be larger than on its primary, or the replica can still win after the clients were let go.
pub const FAILOVER_TIMEOUT: Duration = Duration::from_millis(500);
/// Before Valkey lets its clients write again: the replica may have won and not said so yet.
pub const HOLD_AFTER: Duration = Duration::from_millis(250);
/// By then the replica should have given up too.
pub const PATIENCE_PER_REPLICA: Duration = Duration::from_millis(650);
/// Valkey checks ten times a second whether the time of a failover is over: a replica that answers twice, this far apart, has
/// checked in between.
pub const GIVES_UP_WITHIN: Duration = Duration::from_millis(150);
/// By then it is decided without the replica's word.
pub const LAST_WORD: Duration = Duration::from_millis(900);
/// Clients wait no longer for one try, whatever hangs, unless neither the replica nor most voters say whether it has won.
pub const LONGEST_TRY: Duration = Duration::from_secs(1);
/// A replica that says it has won is heard of by then, or this node hears nobody and takes no writes: the node timeout and a second.
pub const HEARD_OF_WITHIN: Duration = Duration::from_secs(6);

/// What a candidate says of itself right before it is asked to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateState {
    pub is_replica: bool,
    pub link_up: bool,
    /// Its own pod stops too.
    pub stopping: bool,
}

/// Why a replica did not take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It could win the vote, end before the others hear of it, and come back with a claim to slots whose writes went elsewhere
    /// meanwhile.
    StopsItself,
    Because(String),
}

pub fn may_take_over(state: CandidateState) -> Result<(), NotTaken> {
    if !state.is_replica || !state.link_up {
        return Err(NotTaken::Because("it is not a replica in sync".into()));
    }
    if state.stopping { Err(NotTaken::StopsItself) } else { Ok(()) }
}

/// How far a replica that was asked to take over has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It refused: nothing has begun.
    Refused,
    /// It did not answer: the failover may have begun all the same.
    NoAnswer,
    /// This node is still the primary after that time.
    StillPrimary(Duration),
    /// The time is over, this node is still the primary, and the replica says that it is a replica: it cannot win any more.
    NotWon,
    /// The time is over, this node is still the primary, and what the replica is nobody knows: it may have won unheard.
    Unknown,
    /// The replica says that it is the primary now, and this node has not heard of it.
    Won,
    /// This node is a replica now.
    Done,
}

/// What to do about the clients' writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    Leave,
    /// From here on nothing is acknowledged that a winner which has not been heard of yet would not have.
    Hold,
    /// The same, until the winner is heard of.
    HoldOn,
    /// Clients that wait go on, here or at the new primary.
    Release,
}

pub fn writes(progress: Progress) -> Writes {
    match progress {
        Progress::Refused => Writes::Leave,
        Progress::NoAnswer => Writes::Hold,
        Progress::Unknown | Progress::Won => Writes::HoldOn,
        Progress::StillPrimary(asked) if asked >= HOLD_AFTER => Writes::Hold,
        Progress::StillPrimary(_) => Writes::Leave,
        Progress::NotWon | Progress::Done => Writes::Release,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    HandedOver { to: String },
    NothingToDo(&'static str),
    NoReplica,
    Unreachable(String),
    Failed(String),
}

/// After every candidate was tried, with its name. `Err` is worth another try.
pub fn nobody_took_over(tried: Vec<(String, NotTaken)>) -> Result<Outcome, String> {
    let reasons = tried.into_iter().filter_map(|(name, not_taken)| match not_taken {
        NotTaken::StopsItself => None,
        NotTaken::Because(reason) => Some(format!("{name}: {reason}")),
    });
    let reasons: Vec<String> = reasons.collect();
    if reasons.is_empty() { Ok(Outcome::NoReplica) } else { Err(reasons.join("; ")) }
}

impl Outcome {
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::HandedOver { .. } => "handed-over",
            Outcome::NothingToDo(_) => "nothing-to-do",
            Outcome::NoReplica => "no-replica-in-sync",
            Outcome::Unreachable(_) => "valkey-unreachable",
            Outcome::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::HandedOver { to } => write!(f, "{to} is the primary now"),
            Outcome::NothingToDo(reason) => f.write_str(reason),
            Outcome::NoReplica => f.write_str("no replica of this primary is in sync and stays"),
            Outcome::Unreachable(reason) | Outcome::Failed(reason) => f.write_str(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_replica_in_sync_that_stays_is_asked_to_take_over() {
        let good = CandidateState { is_replica: true, link_up: true, stopping: false };
        assert_eq!(may_take_over(good), Ok(()));
        assert_eq!(may_take_over(CandidateState { stopping: true, ..good }), Err(NotTaken::StopsItself));
        for bad in [CandidateState { is_replica: false, ..good }, CandidateState { link_up: false, ..good }] {
            assert!(matches!(may_take_over(bad), Err(NotTaken::Because(_))), "{bad:?}");
        }
    }

    #[test]
    fn writes_are_held_while_a_failover_may_have_been_won_unheard_and_released_when_it_was() {
        for (progress, expected) in [
            (Progress::Refused, Writes::Leave),
            (Progress::NoAnswer, Writes::Hold),
            (Progress::StillPrimary(Duration::ZERO), Writes::Leave),
            (Progress::StillPrimary(HOLD_AFTER), Writes::Hold),
            (Progress::NotWon, Writes::Release),
            (Progress::Unknown, Writes::HoldOn),
            (Progress::Won, Writes::HoldOn),
            (Progress::Done, Writes::Release),
        ] {
            assert_eq!(writes(progress), expected, "{progress:?}");
        }
    }

    #[test]
    fn writes_are_held_before_valkey_lets_them_go_and_released_only_after_the_replica_has_given_up() {
        assert!(HOLD_AFTER < FAILOVER_TIMEOUT && FAILOVER_TIMEOUT < PATIENCE_PER_REPLICA);
        assert!(PATIENCE_PER_REPLICA + GIVES_UP_WITHIN < LAST_WORD && LAST_WORD < LONGEST_TRY);
    }

    #[test]
    fn replicas_that_all_stop_too_are_no_reason_to_try_again() {
        let stops = || ("p-1".to_owned(), NotTaken::StopsItself);
        assert_eq!(nobody_took_over(vec![stops()]), Ok(Outcome::NoReplica));
        let failed = ("p-2".to_owned(), NotTaken::Because("no".into()));
        assert_eq!(nobody_took_over(vec![stops(), failed]), Err("p-2: no".to_owned()));
    }
}
