//! Whether enough primaries would vote now. From Valkey 9 on a primary denies its vote for a node timeout after its start, so an
//! election is not begun before it can be won. Pure; the hand-over and the failover command wait by it.

use topology::{ClusterNode, ClusterNodes, NodeId, Role};

/// The node timeout and a second for the rounding of uptimes.
const VOTES_AFTER_SECONDS: u64 = 6;
/// A loss is told in whole seconds.
const ROUNDING: u64 = 2_000;
/// In a larger cluster a few restarted primaries are no majority, and asking all of them would take too long.
pub const MOST: usize = 64;

/// What one primary would do if it were asked for its vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    Able,
    /// It has been started a moment ago.
    TooYoung,
    /// It and the candidate have not found each other yet: a request that is not heard is not repeated.
    Apart,
    /// It gives no answer.
    Silent,
}

impl Vote {
    /// `linked`: see `linked`. Servers before Valkey 9 vote right after their start.
    pub fn of(major_version: Option<u32>, uptime_seconds: Option<u64>, linked: bool) -> Self {
        let young = uptime_seconds.is_some_and(|seconds| seconds < VOTES_AFTER_SECONDS);
        match (linked, young && major_version.is_none_or(|major| major >= 9)) {
            (false, _) => Vote::Apart,
            (true, true) => Vote::TooYoung,
            (true, false) => Vote::Able,
        }
    }
}

/// The node whose view this is would hear the other: the request goes over the candidate's link to the voter, the vote over the
/// voter's link to the candidate.
pub fn linked(view: &ClusterNodes, other: &NodeId) -> bool {
    let is_myself = view.myself().is_some_and(|myself| myself.id == *other);
    let usable = |id: &NodeId| view.find(id).is_some_and(|node| node.connected && !node.has_flag("handshake"));
    is_myself || usable(other)
}

/// Whether so many voters are asked at all before an election.
pub fn are_asked(voters: usize) -> bool {
    voters <= MOST
}

/// The voter whose view this is would hear the candidate, and takes it for a replica: no other is voted for.
pub fn would_hear(view: &ClusterNodes, candidate: &NodeId) -> bool {
    linked(view, candidate) && view.find(candidate).is_some_and(|node| node.role() == Some(Role::Replica))
}

/// What an election that is begun now comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// A majority would vote.
    Winnable,
    /// It may be won later.
    Later,
    /// It cannot be won, as far as is known, and waiting does not change that.
    Hopeless,
}

/// `hopeful`: those that give no answer may still come back.
pub fn prospect(votes: &[Vote], hopeful: bool) -> Prospect {
    let count = |kind| votes.iter().filter(|vote| **vote == kind).count();
    let needed = votes.len() / 2 + 1;
    let able = count(Vote::Able);
    let soon = count(Vote::TooYoung) + count(Vote::Apart);
    match (able >= needed, hopeful || able + soon >= needed) {
        (true, _) => Prospect::Winnable,
        (false, true) => Prospect::Later,
        (false, false) => Prospect::Hopeless,
    }
}

/// What a node says of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion {
    Runs,
    Failed,
    /// It takes others for the owners of its slots.
    Replaced,
    /// It does not know it, and votes for none of its replicas.
    Stranger,
    Silent,
}

impl Opinion {
    pub fn of(view: &ClusterNodes, id: &NodeId) -> Self {
        match view.find(id) {
            None => Opinion::Stranger,
            Some(node) if !node.is_primary() || node.slots.is_empty() => Opinion::Replaced,
            Some(node) if node.has_failed() => Opinion::Failed,
            Some(_) => Opinion::Runs,
        }
    }
}

/// Whether a replica may stand for election, by what the other primaries say of its own.
pub fn may_stand(others: &[Opinion]) -> bool {
    let failed = others.iter().filter(|opinion| **opinion == Opinion::Failed).count();
    is_majority(failed, others) && !others.contains(&Opinion::Replaced)
}

/// Whether the primary was heard, by anybody, after the replica had lost it: it may have acknowledged what the replica lacks, and its
/// data may come back. Both in milliseconds of the replica's clock; what others heard comes with their clocks' difference.
pub fn was_outlived(heard_at: u64, lost_at: Option<u64>) -> bool {
    lost_at.is_some_and(|lost| heard_at > lost.saturating_add(ROUNDING))
}

/// Whether a replica of a primary that came back might still win an election against it. `trusting`: who gives no answer has had the time
/// to see that it runs.
pub fn can_be_voted_out(others: &[Opinion], trusting: bool) -> bool {
    let votes = |opinion: &Opinion| match opinion {
        Opinion::Runs | Opinion::Stranger => false,
        Opinion::Failed | Opinion::Replaced => true,
        Opinion::Silent => !trusting,
    };
    let count = others.iter().filter(|opinion| votes(opinion)).count();
    is_majority(count, others) || others.contains(&Opinion::Replaced)
}

/// Of all primaries, with the one that they speak of.
fn is_majority(count: usize, others: &[Opinion]) -> bool {
    let all = others.len() + 1;
    count > all / 2
}

/// Whether by this view the node runs, or another has its slots: what its replicas hold is then nowhere the only copy.
pub fn is_served(view: &ClusterNodes, id: &NodeId) -> bool {
    let runs = |node: &ClusterNode| node.has_flag("myself") || node.connected && !node.has_flag("fail?");
    match Opinion::of(view, id) {
        Opinion::Replaced => true,
        Opinion::Runs => view.find(id).is_some_and(runs),
        Opinion::Failed | Opinion::Stranger | Opinion::Silent => false,
    }
}

/// What a voter says of a replica that was asked to take over and says nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// It takes the replica for a primary.
    pub follows: bool,
    pub current_epoch: u64,
}

impl Said {
    pub fn of(view: &ClusterNodes, current_epoch: u64, candidate: &NodeId) -> Self {
        Self { follows: view.find(candidate).is_some_and(|node| node.role() == Some(Role::Primary)), current_epoch }
    }
}

/// The newest epoch that the replica can have won: most voters answer, so one of them gave any vote that counted, and none follows it. None
/// when that is not known.
pub fn newest_if_nobody_follows(said: &[Option<Said>]) -> Option<u64> {
    let answers: Vec<&Said> = said.iter().flatten().collect();
    let nobody_follows = answers.len() > said.len() / 2 && !answers.iter().any(|said| said.follows);
    answers.iter().map(|said| said.current_epoch).max().filter(|_| nobody_follows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Vote::{Able, Apart, Silent, TooYoung};

    #[test]
    fn an_election_is_won_by_a_majority_and_hopeless_while_most_are_silent() {
        use Prospect::{Hopeless, Later, Winnable};
        for hopeful in [false, true] {
            assert_eq!(prospect(&[Able, TooYoung, TooYoung], hopeful), Later);
            assert_eq!(prospect(&[Able, TooYoung, Silent], hopeful), Later);
            assert_eq!(prospect(&[Able, Apart, Silent], hopeful), Later);
            assert_eq!(prospect(&[Able, Able, Silent], hopeful), Winnable);
            assert_eq!(prospect(&[Able, Silent, Silent], hopeful), if hopeful { Later } else { Hopeless });
        }
    }

    #[test]
    fn a_primary_can_be_voted_out_while_a_majority_holds_it_for_failed_or_does_not_say() {
        use Opinion::{Failed, Replaced, Runs, Silent, Stranger};
        for (others, expected) in [
            (vec![Failed, Failed], [true, true]),
            (vec![Failed, Runs], [false, false]),
            (vec![Failed, Stranger], [false, false]),
            (vec![Silent, Failed], [true, false]),
            (vec![Silent, Silent], [true, false]),
            (vec![Failed, Failed, Runs, Runs], [false, false]),
            (vec![Failed, Failed, Silent, Runs], [true, false]),
            (vec![Replaced, Runs], [true, true]),
            (vec![Failed], [false, false]),
            (vec![], [false, false]),
        ] {
            assert_eq!([false, true].map(|trusting| can_be_voted_out(&others, trusting)), expected, "{others:?}");
        }
    }

    #[test]
    fn a_replica_stands_for_election_only_when_a_majority_says_that_its_primary_has_failed() {
        use Opinion::{Failed, Replaced, Runs, Silent, Stranger};
        for (others, expected) in [
            (vec![Failed, Failed], true),
            (vec![Failed, Runs], false),
            (vec![Failed, Silent], false),
            (vec![Failed, Failed, Silent], false),
            (vec![Failed, Failed, Failed, Silent], true),
            (vec![Failed, Failed, Silent, Runs], false),
            (vec![Failed, Failed, Failed, Replaced], false),
            (vec![Stranger, Stranger], false),
            (vec![Failed], false),
            (vec![], false),
        ] {
            assert_eq!(may_stand(&others), expected, "{others:?}");
        }
    }

    #[test]
    fn what_a_node_says_of_another_is_in_its_view() {
        let opinion = |of: &str| {
            let view =
                format!("v 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-5\np 10.0.0.2:6379@16379 {of}\n");
            Opinion::of(&ClusterNodes::parse(&view).unwrap(), &"p".into())
        };
        assert_eq!(opinion("master - 0 0 7 connected 6"), Opinion::Runs);
        assert_eq!(opinion("master,fail? - 0 0 7 connected 6"), Opinion::Runs);
        assert_eq!(opinion("master,fail - 0 0 7 connected 6"), Opinion::Failed);
        assert_eq!(opinion("master - 0 0 7 connected"), Opinion::Replaced);
        assert_eq!(opinion("slave v 0 0 7 connected"), Opinion::Replaced);
        let view = ClusterNodes::parse("v 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-5\n").unwrap();
        assert_eq!(Opinion::of(&view, &"p".into()), Opinion::Stranger);
    }

    #[test]
    fn a_primary_that_was_heard_after_it_was_lost_has_outlived_the_link() {
        assert!(was_outlived(12_001, Some(10_000)) && !was_outlived(12_000, Some(10_000)));
        assert!(!was_outlived(0, Some(10_000)) && !was_outlived(12_001, None));
    }

    #[test]
    fn a_node_is_served_when_it_runs_or_another_has_its_slots() {
        let served = |line: &str| {
            let view = format!("v 10.0.0.1:6379@16379 master - 0 0 1 connected 0-5\np 10.0.0.2:6379@16379 {line}\n");
            is_served(&ClusterNodes::parse(&view).unwrap(), &"p".into())
        };
        for (line, expected) in [
            ("master - 0 0 7 connected 6", true),
            ("myself,master - 0 0 7 connected 6", true),
            ("master - 0 0 7 disconnected 6", false),
            ("master,fail? - 0 0 7 connected 6", false),
            ("master,fail - 0 0 7 connected 6", false),
            ("master,fail - 0 0 7 disconnected", true),
            ("slave v 0 0 7 connected", true),
        ] {
            assert_eq!(served(line), expected, "{line}");
        }
        assert!(!is_served(
            &ClusterNodes::parse("v 10.0.0.1:6379@16379 master - 0 0 1 connected\n").unwrap(),
            &"p".into()
        ));
    }

    #[test]
    fn a_voter_that_takes_the_candidate_for_a_primary_does_not_vote_for_it() {
        let view = |flags: &str| {
            let lines = format!(
                "v 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-5\nc 10.0.0.2:6379@16379 {flags} 0 0 1 connected\n"
            );
            ClusterNodes::parse(&lines).unwrap()
        };
        assert!(would_hear(&view("slave p"), &"c".into()));
        assert!(!would_hear(&view("master -"), &"c".into()) && !would_hear(&view("slave p"), &"d".into()));
    }

    #[test]
    fn only_newer_servers_deny_their_vote_when_young() {
        for (major, uptime, expected) in [
            (Some(9), Some(2), TooYoung),
            (Some(9), Some(6), Able),
            (Some(8), Some(0), Able),
            (None, Some(2), TooYoung),
            (Some(9), None, Able),
        ] {
            assert_eq!(Vote::of(major, uptime, true), expected, "{major:?} {uptime:?}");
            assert_eq!(Vote::of(major, uptime, false), Apart, "{major:?} {uptime:?}");
        }
    }

    #[test]
    fn a_request_is_heard_over_a_link_that_is_up() {
        let view = "me 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-5\n\
            a 10.0.0.2:6379@16379 master - 0 0 1 connected 6-9\n\
            b 10.0.0.3:6379@16379 master - 0 0 1 disconnected 10-12\n\
            c 10.0.0.4:6379@16379 handshake - 0 0 0 connected\n";
        let view = ClusterNodes::parse(view).unwrap();
        let linked = ["me", "a", "b", "c", "d"].map(|id| linked(&view, &id.into()));
        assert_eq!(linked, [true, true, false, false, false]);
    }

    #[test]
    fn a_silent_replica_is_outbid_only_when_most_voters_say_that_nobody_follows_it() {
        let said = |follows, current_epoch| Some(Said { follows, current_epoch });
        assert_eq!(newest_if_nobody_follows(&[said(false, 7), said(false, 8), None]), Some(8));
        assert_eq!(newest_if_nobody_follows(&[said(false, 7), None, None]), None, "the others may follow it");
        assert_eq!(newest_if_nobody_follows(&[said(false, 7), said(true, 8), said(false, 7)]), None);
        assert_eq!(newest_if_nobody_follows(&[]), None);
        let view =
            |flags: &str| ClusterNodes::parse(&format!("n 10.0.0.2:6379@16379 {flags} - 0 0 1 connected\n")).unwrap();
        let of = |flags: &str| Said::of(&view(flags), 7, &NodeId::from("n")).follows;
        assert!(of("master") && !of("slave"));
    }
}
