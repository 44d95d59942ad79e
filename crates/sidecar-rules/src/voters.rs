//! Whether enough primaries would vote now. From Valkey 9 on a primary denies its vote for a node timeout after its start, so an
//! election is not begun before it can be won. Pure; the hand-over and the failover command wait by it.

/// The node timeout and a second for the rounding of uptimes.
const VOTES_AFTER_SECONDS: u64 = 6;
/// Older servers vote right after their start, but the others have to find them again first.
const FOUND_AGAIN_SECONDS: u64 = 1;
/// In a larger cluster a few restarted primaries are no majority, and asking all of them would take too long.
const MOST: usize = 64;

/// What one primary would do if it were asked for its vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    Able,
    /// It has been started a moment ago.
    TooYoung,
    /// It gives no answer.
    Silent,
}

impl Vote {
    pub fn of(major_version: Option<u32>, uptime_seconds: Option<u64>) -> Self {
        let needed =
            if major_version.is_some_and(|major| major < 9) { FOUND_AGAIN_SECONDS } else { VOTES_AFTER_SECONDS };
        if uptime_seconds.is_none_or(|seconds| seconds >= needed) { Vote::Able } else { Vote::TooYoung }
    }
}

/// Whether so many voters are asked at all before an election.
pub fn are_asked(voters: usize) -> bool {
    voters <= MOST
}

/// `hopeful`: those that give no answer may still come back.
pub fn waiting_helps(votes: &[Vote], hopeful: bool) -> bool {
    let count = |kind| votes.iter().filter(|vote| **vote == kind).count();
    let needed = votes.len() / 2 + 1;
    let able = count(Vote::Able);
    able < needed && (hopeful || able + count(Vote::TooYoung) >= needed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Vote::{Able, Silent, TooYoung};

    #[test]
    fn waiting_helps_only_when_the_young_make_the_majority() {
        for hopeful in [false, true] {
            assert!(waiting_helps(&[Able, TooYoung, TooYoung], hopeful));
            assert!(waiting_helps(&[Able, TooYoung, Silent], hopeful));
            assert!(!waiting_helps(&[Able, Able, Silent], hopeful));
            assert_eq!(waiting_helps(&[Able, Silent, Silent], hopeful), hopeful);
        }
    }

    #[test]
    fn only_newer_servers_deny_their_vote_when_young() {
        for (major, uptime, expected) in [
            (Some(9), Some(2), TooYoung),
            (Some(9), Some(6), Able),
            (Some(8), Some(2), Able),
            (Some(8), Some(0), TooYoung),
            (None, Some(2), TooYoung),
            (Some(9), None, Able),
        ] {
            assert_eq!(Vote::of(major, uptime), expected, "{major:?} {uptime:?}");
        }
    }
}
