use super::*;
use crate::boot::{Peer, peer_answer::tests::past};
use proptest::prelude::*;
use topology::SlotSet;

const PATIENCE: Duration = Duration::from_secs(15);

fn primary() -> PastNode {
    let peer = |id: &str, replica_of_mine| Peer {
        id: id.into(),
        address: None,
        hostname: None,
        replica_of_mine,
        former_primary: false,
        unlisted: false,
    };
    PastNode { peers: vec![peer("r1", true), peer("o1", false)], ..past() }
}

/// A primary with slots and a replica that was killed a moment ago and has lost its data.
fn trapped() -> Facts {
    Facts {
        past: Past::Node(primary()),
        data: Data::Nothing,
        complete_until: Some(saved()),
        ended: Some(ended()),
        clean_stop: false,
        answers: BTreeMap::new(),
        asked: Duration::ZERO,
        ordered: None,
        waited: Duration::ZERO,
        patience: PATIENCE,
    }
}

fn saved() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn ended() -> SystemTime {
    saved() + Duration::from_secs(600)
}

fn with_replica(facts: Facts, keys: u64, followed: Followed) -> Facts {
    let answer = PeerAnswer { copy: Some(Copy { keys, followed, short: false }), ..PeerAnswer::default() };
    Facts { answers: [("r1".into(), answer)].into(), ..facts }
}

fn successor(outranks: bool) -> Option<Successor> {
    Some(Successor { name: "r1".into(), outranks })
}

fn opens(facts: &Facts) -> bool {
    matches!(decide(facts), Decision::Open { start: Start::AsIs, .. })
}

#[test]
fn whoever_has_nothing_to_take_from_others_starts_at_once() {
    let as_node = |node| Facts { past: Past::Node(node), ..trapped() };
    assert!(opens(&Facts { past: Past::Unknown, ..trapped() }));
    assert!(opens(&as_node(PastNode { role: Role::Replica, ..primary() })));
    assert!(opens(&as_node(PastNode { slots: SlotSet::default(), ..primary() })));
    assert!(opens(&as_node(PastNode { peers: Vec::new(), ..primary() })));
    assert!(opens(&Facts { clean_stop: true, data: Data::Snapshot, ..trapped() }));
}

#[test]
fn a_primary_without_data_waits_for_ever_until_another_has_its_slots() {
    let late = Facts { waited: PATIENCE * 1000, ..trapped() };
    assert!(!opens(&trapped()) && !opens(&late));
    let mut replaced = trapped();
    replaced.answers.insert("o1".into(), PeerAnswer { successor: successor(true), ..PeerAnswer::default() });
    assert!(opens(&replaced));
    assert!(matches!(decide(&replaced), Decision::Open { concede: false, .. }));
    replaced.answers.insert("o1".into(), PeerAnswer { successor: successor(false), ..PeerAnswer::default() });
    assert!(matches!(decide(&replaced), Decision::Open { concede: true, .. }), "epochs collided");
}

#[test]
fn a_primary_without_data_starts_when_every_replica_says_that_it_has_none_either() {
    let late = Facts { waited: PATIENCE, ..trapped() };
    assert!(opens(&with_replica(late.clone(), 0, Followed::Never)));
    assert!(!opens(&with_replica(late, 1, Followed::Never)));
    assert!(!opens(&with_replica(trapped(), 0, Followed::Never)), "not before the others had their chance");
}

/// It froze under writes, and lost its link only when it was thawed.
#[test]
fn a_primary_with_a_journal_does_not_wait_for_a_replica_that_has_less() {
    let facts = with_replica(Facts { data: Data::Journal, ..trapped() }, 9, Followed::Until(ended()));
    assert!(!opens(&facts));
    let mut short = facts;
    for copy in short.answers.values_mut().filter_map(|answer| answer.copy.as_mut()) {
        copy.short = true;
    }
    assert!(opens(&short));
    assert!(!opens(&Facts { data: Data::Snapshot, ..short }), "it may still have more than the snapshot");
}

#[test]
fn a_primary_with_data_gives_its_replicas_their_chance_and_then_starts() {
    for data in [Data::Snapshot, Data::Journal] {
        let early = Facts { data, ..trapped() };
        let late = Facts { waited: PATIENCE, ..early.clone() };
        assert!(!opens(&early));
        assert_eq!(opens(&late), data == Data::Journal, "nobody answers");
        assert!(
            opens(&with_replica(late, 9, Followed::Never)),
            "a replica restarted since has no newer data: {data:?}"
        );
    }
}

/// Frozen, cut off or loading, it may have followed to the end: only the operator can know that it is gone.
#[test]
fn a_snapshot_waits_for_ever_for_a_replica_that_says_nothing() {
    let loads = PeerAnswer { loads: true, ..PeerAnswer::default() };
    let follows_another = PeerAnswer::default();
    for data in [Data::Snapshot, Data::UnsyncedJournal] {
        let late = Facts { data, waited: PATIENCE * 1000, asked: PATIENCE * 1000, ..trapped() };
        let answered = |answer: &PeerAnswer| Facts { answers: [("r1".into(), answer.clone())].into(), ..late.clone() };
        assert!(!opens(&late) && !opens(&answered(&loads)), "{data:?}");
        assert!(opens(&answered(&follows_another)), "{data:?}");
        assert!(opens(&Facts { ordered: Some(Start::AsIs), ..late.clone() }), "{data:?}");
    }
}

/// It may have followed from anywhere, and nobody could say that it is gone.
#[test]
fn a_snapshot_does_not_wait_for_ever_for_a_replica_that_was_made_unknown() {
    let mut node = primary();
    node.peers[0].unlisted = true;
    let late = Facts { past: Past::Node(node), data: Data::Snapshot, waited: PATIENCE, ..trapped() };
    assert!(opens(&late) && !opens(&Facts { waited: PATIENCE / 2, ..late }));
}

#[test]
fn a_primary_with_all_its_data_starts_at_once_when_no_replica_that_answers_followed_it_to_its_end() {
    let journal = Facts { data: Data::Journal, ..trapped() };
    let lost = |seconds| with_replica(journal.clone(), 9, Followed::Until(ended() - Duration::from_secs(seconds)));
    assert!(opens(&lost(3)) && opens(&with_replica(journal.clone(), 9, Followed::Never)));
    assert!(!opens(&lost(0)) && !opens(&lost(2)), "told in whole seconds");
    assert!(!opens(&with_replica(journal.clone(), 9, Followed::Still)));
    assert!(!opens(&Facts { ended: None, ..lost(3) }), "nobody knows when it ended");
    assert!(!opens(&Facts { asked: PATIENCE, ..journal }), "nobody answers");
}

#[test]
fn a_silent_replica_holds_a_primary_with_all_its_data_up_only_until_it_could_have_answered() {
    let silent = Peer { id: "r2".into(), ..primary().peers[0].clone() };
    let mut node = primary();
    node.peers.push(silent);
    let facts = Facts { past: Past::Node(node), data: Data::Journal, ..trapped() };
    let early = with_replica(facts, 9, Followed::Never);
    assert!(!opens(&early) && opens(&Facts { asked: TIME_TO_ANSWER, ..early.clone() }));
    let snapshot = Facts { data: Data::Snapshot, asked: TIME_TO_ANSWER, ..early };
    assert!(!opens(&snapshot), "the silent one may have more than a snapshot");
}

#[test]
fn a_snapshot_starts_at_once_when_every_replica_answers_that_it_has_no_more() {
    let snapshot = Facts { data: Data::Snapshot, ..trapped() };
    let lost = |at| with_replica(snapshot.clone(), 9, Followed::Until(at));
    let hour = Duration::from_secs(3600);
    assert!(opens(&lost(saved() - hour)) && !opens(&lost(saved() + hour)));
}

/// As `appendfsync no` leaves it when the machine fails.
#[test]
fn a_journal_that_may_lack_its_end_does_not_win_over_a_replica_that_may_have_it() {
    let late = Facts { data: Data::UnsyncedJournal, waited: PATIENCE * 1000, ..trapped() };
    let hour = Duration::from_secs(3600);
    for followed in [Followed::Still, Followed::Until(ended()), Followed::Until(saved())] {
        let facts = with_replica(late.clone(), 9, followed);
        assert!(!opens(&facts) && !opens(&Facts { ordered: Some(Start::AsIs), ..facts }), "{followed:?}");
    }
    assert!(opens(&with_replica(late.clone(), 9, Followed::Until(saved() - hour))), "an old copy has less");
    assert!(!opens(&late), "nobody answers");
    assert!(opens(&Facts { clean_stop: true, waited: Duration::ZERO, ..late }));
}

#[test]
fn an_old_snapshot_never_wins_over_a_replica_that_followed_to_the_end() {
    let late = Facts { data: Data::Snapshot, waited: PATIENCE * 1000, ..trapped() };
    assert!(!opens(&with_replica(late.clone(), 9, Followed::Still)));
    assert!(opens(&with_replica(Facts { data: Data::Journal, ..late }, 9, Followed::Still)));
}

#[test]
fn a_snapshot_is_better_than_a_replica_whose_link_was_lost_before_it_was_written() {
    let late = Facts { data: Data::Snapshot, waited: PATIENCE, ..trapped() };
    let lost = |at: SystemTime| with_replica(late.clone(), 9, Followed::Until(at));
    let hour = Duration::from_secs(3600);
    assert!(opens(&lost(saved() - hour)));
    assert!(opens(&Facts { ordered: Some(Start::AsIs), ..lost(saved() - hour) }));
    assert!(!opens(&lost(saved() + hour)));
    let unread = Facts { complete_until: None, ..lost(saved() - hour) };
    assert!(!opens(&unread), "whatever cannot be compared is not overruled");
    let empty = Facts { data: Data::Nothing, ..lost(saved() - hour) };
    assert!(!opens(&empty), "an old copy is better than none");
}

#[test]
fn a_primary_that_died_right_after_it_saved_was_followed_beyond_its_snapshot() {
    let late = Facts { data: Data::Snapshot, waited: PATIENCE, ..trapped() };
    let in_whole_seconds = saved() - Duration::from_millis(1_900);
    assert!(!opens(&with_replica(late, 9, Followed::Until(in_whole_seconds))));
}

/// Its data went to this node by a vote, and this node has lost it since.
#[test]
fn a_primary_without_data_does_not_take_the_place_of_its_former_primary() {
    let failed = Peer {
        id: "f1".into(),
        address: None,
        hostname: None,
        replica_of_mine: false,
        former_primary: true,
        unlisted: false,
    };
    let node = PastNode { peers: vec![failed], ..past() };
    let empty = Facts { past: Past::Node(node), waited: PATIENCE, ..trapped() };
    let copy = |keys| Copy { keys, followed: Followed::Never, short: false };
    let with = |keys| PeerAnswer { copy: Some(copy(keys)), ..PeerAnswer::default() };
    let answered = |keys| Facts { answers: [("f1".into(), with(keys))].into(), asked: TIME_TO_ANSWER, ..empty.clone() };
    assert!(!opens(&empty) && !opens(&answered(9)) && opens(&answered(0)));
    let ordered = Facts { ordered: Some(Start::AsIs), ..answered(9) };
    assert!(!opens(&ordered) && opens(&Facts { answers: BTreeMap::new(), ..ordered }));
    for data in [Data::Snapshot, Data::Journal] {
        assert!(opens(&Facts { data, ..answered(9) }), "its own data is newer: {data:?}");
    }
}

#[test]
fn the_operator_may_know_better() {
    let ordered = |start| Facts { ordered: Some(start), asked: TIME_TO_ANSWER, ..trapped() };
    assert!(matches!(decide(&ordered(Start::Fresh)), Decision::Open { start: Start::Fresh, .. }));
    assert!(opens(&ordered(Start::AsIs)));
}

#[test]
fn with_a_damaged_identity_a_node_starts_afresh_or_not_at_all() {
    let damaged = |ordered| Facts { ordered, past: Past::Damaged("x".into()), ..trapped() };
    assert!(matches!(decide(&damaged(Some(Start::Fresh))), Decision::Open { start: Start::Fresh, .. }));
    for ordered in [None, Some(Start::AsIs)] {
        assert!(matches!(decide(&damaged(ordered)), Decision::Wait { .. }), "{ordered:?}");
    }
}

#[test]
fn an_order_does_not_overrule_a_copy_that_followed_to_the_end_unless_the_own_data_is_as_good() {
    let ordered = Facts { ordered: Some(Start::AsIs), asked: TIME_TO_ANSWER, ..trapped() };
    for data in [Data::Nothing, Data::Snapshot] {
        let facts = Facts { data, ..ordered.clone() };
        assert!(!opens(&with_replica(facts.clone(), 9, Followed::Still)), "{data:?}");
        assert!(opens(&with_replica(facts.clone(), 0, Followed::Still)), "{data:?}");
        assert_eq!(
            opens(&with_replica(facts.clone(), 9, Followed::Never)),
            data == Data::Snapshot,
            "restarted since: {data:?}"
        );
        assert!(opens(&facts), "a replica that gives no answer holds nobody up: {data:?}");
    }
    assert!(opens(&with_replica(Facts { data: Data::Journal, ..ordered }, 9, Followed::Still)));
}

#[test]
fn an_order_waits_until_every_replica_was_asked_whether_it_serves_the_slots() {
    for data in [Data::Nothing, Data::Snapshot, Data::Journal] {
        let ordered = Facts { data, ordered: Some(Start::AsIs), waited: PATIENCE / 2, ..trapped() };
        assert!(!opens(&ordered), "{data:?}");
        assert!(opens(&with_replica(ordered.clone(), 0, Followed::Still)), "{data:?}");
        assert!(opens(&Facts { asked: TIME_TO_ANSWER, ..ordered }), "{data:?}");
    }
}

#[test]
fn an_order_does_not_let_a_node_win_its_slots_back_from_its_successor() {
    for outranks in [false, true] {
        let mut facts = Facts { data: Data::Journal, ordered: Some(Start::AsIs), asked: TIME_TO_ANSWER, ..trapped() };
        facts.answers.insert("r1".into(), PeerAnswer { successor: successor(outranks), ..PeerAnswer::default() });
        assert!(matches!(decide(&facts), Decision::Open { concede, .. } if concede != outranks));
    }
}

#[test]
fn a_stop_in_order_is_one_that_was_asked_for_and_saved_after_that() {
    let hour = Duration::from_secs(3600);
    let (before, after) = (Some(saved() - hour), Some(saved() + hour));
    for (asked, data, written, expected) in [
        (None, Data::Journal, before, false),
        (Some(saved()), Data::Journal, None, true),
        (Some(saved()), Data::UnsyncedJournal, before, true),
        (Some(saved()), Data::Snapshot, before, false),
        (Some(saved()), Data::Snapshot, after, true),
        (Some(saved()), Data::Snapshot, None, false),
        (Some(saved()), Data::Nothing, after, false),
    ] {
        assert_eq!(stopped_in_order(asked, data, written), expected, "{asked:?} {data:?} {written:?}");
    }
}

fn any_answer() -> impl Strategy<Value = PeerAnswer> {
    let until =
        (0u64..2_000_000).prop_map(|seconds| Followed::Until(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)));
    let followed = prop_oneof![Just(Followed::Never), Just(Followed::Still), until];
    let copy = (0u64..3, followed, any::<bool>()).prop_map(|(keys, followed, short)| Copy { keys, followed, short });
    let answer = (proptest::option::of(copy), any::<bool>());
    answer.prop_map(|(copy, loads)| PeerAnswer { loads: loads && copy.is_none(), copy, ..PeerAnswer::default() })
}

proptest! {
    /// Whatever else is true: without data, without a successor and without an order, a primary starts only if no replica
    /// can have data; and no copy that followed beyond a snapshot is ever overruled by it.
    #[test]
    fn an_empty_or_outdated_primary_never_takes_the_place_of_a_copy_with_data(
        answers in proptest::collection::btree_map("r1|o1".prop_map(NodeId::new), any_answer(), 0..3),
        snapshot: bool,
        seconds in 0u64..100_000,
    ) {
        let data = if snapshot { Data::Snapshot } else { Data::Nothing };
        let facts = Facts { data, answers: answers.clone(), waited: Duration::from_secs(seconds), ..trapped() };
        let replica = answers.get(&NodeId::from("r1")).and_then(|answer| answer.copy);
        if opens(&facts) && snapshot {
            let later = |followed| match followed {
                Followed::Never => false,
                Followed::Until(lost) => lost >= saved(),
                Followed::Still => true,
            };
            prop_assert!(!replica.is_some_and(|copy| copy.keys > 0 && later(copy.followed)));
        }
        if opens(&facts) && !snapshot {
            prop_assert_eq!(replica.map(|copy| copy.keys), Some(0));
        }
    }

    /// Time alone never closes a gate that was open.
    #[test]
    fn waiting_longer_never_turns_a_start_into_a_wait(
        answers in proptest::collection::btree_map("r1|o1".prop_map(NodeId::new), any_answer(), 0..3),
        data in prop_oneof![Just(Data::Nothing), Just(Data::Snapshot), Just(Data::UnsyncedJournal), Just(Data::Journal)],
        (first, more) in (0u64..60, 0u64..60),
    ) {
        let at = |seconds| Facts { data, answers: answers.clone(), waited: Duration::from_secs(seconds), ..trapped() };
        prop_assert!(!opens(&at(first)) || opens(&at(first + more)));
    }
}
