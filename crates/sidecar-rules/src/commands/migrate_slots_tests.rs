use super::*;

const NODES: &str = "me 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-9 20\n\
    t 10.0.0.2:6379@16379 master - 0 0 2 connected 10-19\n\
    o 10.0.0.3:6379@16379 master - 0 0 3 connected 30\n\
    r 10.0.0.4:6379@16379 slave t 0 0 2 connected\n\
    f 10.0.0.5:6379@16379 master,fail? - 0 0 4 connected\n";

fn nodes(text: &str) -> ClusterNodes {
    ClusterNodes::parse(text).unwrap()
}

fn asked(nodes_text: &str, target: &str, slots: &str) -> Result<String, Objection> {
    remaining(&nodes(nodes_text), &target.into(), &slots.parse().unwrap()).map(|slots| slots.to_string())
}

#[test]
fn what_the_target_owns_is_done_and_what_a_third_or_nobody_owns_stops_it() {
    assert_eq!(asked(NODES, "t", "5-15,20"), Ok("5-9,20".into()));
    assert_eq!(asked(NODES, "t", "10-12"), Ok(String::new()));
    assert_eq!(asked(NODES, "t", "5,30"), Err(Objection::unsafe_because("slot 30 is served by o")));
    assert_eq!(asked(NODES, "t", "40"), Err(Objection::unsafe_because("slot 40 is served by nobody")));
}

#[test]
fn only_a_primary_moves_slots_and_only_to_another_sound_primary() {
    let refused =
        |target, part: &str| matches!(asked(NODES, target, "5"), Err(Objection::Unsafe(why)) if why.contains(part));
    assert!(refused("r", "not a primary") && refused("f", "failing") && refused("x", "not known"));
    let replica = NODES.replace("myself,master -", "myself,slave o");
    assert!(matches!(asked(&replica, "t", "5"), Err(Objection::Unsafe(_))));
    for (target, slots) in [("me", "5"), ("", "5"), ("t", "")] {
        assert!(matches!(asked(NODES, target, slots), Err(Objection::Invalid(_))), "{target} {slots}");
    }
}

fn target(view: &str) -> Target {
    let copies = Copies { online: 1, in_full_sync: 0 };
    Target { view: nodes(view), cluster_ok: true, loading: false, copies }
}

#[test]
fn the_target_has_to_be_there_with_a_replica_in_step() {
    let here = Copies { online: 1, in_full_sync: 0 };
    let good = target("t 10.0.0.2:6379@16379 myself,master - 0 0 2 connected 10-19\n");
    let is_ready = |target: &Target| ready(&"t".into(), target, true, here, 1).is_ok();
    assert!(is_ready(&good));
    let copies = |online, in_full_sync| Target { copies: Copies { online, in_full_sync }, ..good.clone() };
    let other = target("x 10.0.0.2:6379@16379 myself,master - 0 0 2 connected\n");
    let demoted = target("t 10.0.0.2:6379@16379 myself,slave x 0 0 2 connected\n");
    let (loading, down) = (Target { loading: true, ..good.clone() }, Target { cluster_ok: false, ..good.clone() });
    for bad in [copies(1, 1), copies(0, 0), other, demoted, loading, down] {
        assert!(matches!(ready(&"t".into(), &bad, true, here, 1), Err(Objection::NotNow(_))), "{bad:?}");
    }
    assert!(ready(&"t".into(), &good, false, here, 1).is_err());
    assert!(ready(&"t".into(), &copies(0, 0), true, Copies::default(), 1).is_ok(), "there was one copy before, too");
    assert!(ready(&"t".into(), &copies(0, 0), true, here, 0).is_ok(), "no replicas are wanted any more");
    let two = Copies { online: 2, in_full_sync: 0 };
    assert!(ready(&"t".into(), &good, true, two, 2).is_err() && ready(&"t".into(), &good, true, two, 1).is_ok());
}

#[test]
fn valkey_moves_slots_by_itself_only_where_all_can() {
    let new = Server { version: Some((9, 1, 1)), io_threads: 1, ..Server::default() };
    assert_eq!(way(&[new.clone(), new.clone()], false), Way::Atomic);
    assert_eq!(way(&[new.clone(), new.clone()], true), Way::KeyByKey, "it was in vain before");
    let threads = |version| Server { version: Some(version), io_threads: 4, ..new.clone() };
    for able in [threads((9, 0, 4)), threads((9, 1, 2))] {
        assert_eq!(way(&[new.clone(), able.clone()], false), Way::Atomic, "{able:?}");
    }
    for other in [
        threads((9, 0, 5)),
        threads((9, 1, 1)),
        Server { version: Some((8, 1, 9)), ..new.clone() },
        Server { version: None, ..new.clone() },
        Server { modules: true, ..new.clone() },
        Server { open_slots: true, ..new.clone() },
    ] {
        assert_eq!(way(&[new.clone(), other.clone()], false), Way::KeyByKey, "{other:?}");
    }
}

/// The target knows its new source after a takeover, and the writes that this one has acknowledged.
#[test]
fn a_slot_is_given_away_only_while_both_ends_still_say_that_it_goes_from_here_to_there() {
    const SOURCE: &str = "me :0@0 master - 0 0 1 connected 0-9";
    let asked_with = |here: &str, there: &str, source: &str| {
        handing(&nodes(&format!("{here}\n")), &nodes(&format!("{there}\n{source}\n")), &"t".into(), 5)
    };
    let asked = |here: &str, there: &str| asked_with(here, there, SOURCE);
    let here = "me :0@0 myself,master - 0 0 1 connected 0-9 [5->-t]";
    let there = "t :0@0 myself,master - 0 0 2 connected 10-19 [5-<-me]";
    assert_eq!(asked(here, there), Ok(Handing::Ready));
    assert!(asked_with(here, there, "s2 :0@0 master - 0 0 3 connected 0-9").is_err(), "it was taken over here");
    assert_eq!(asked(here, "t :0@0 myself,master - 0 0 2 connected 5 10-19"), Ok(Handing::Done));
    for (here, there) in [
        (here, there.replace("[5-<-me]", "[5-<-s2]")),
        (here, there.replace(" [5-<-me]", "")),
        (here, there.replace("master", "slave")),
        (here, there.replace("t :0", "x :0")),
        ("me :0@0 myself,slave s2 0 0 1 connected", there.to_owned()),
        ("me :0@0 myself,master - 0 0 1 connected 6-9 [5->-t]", there.to_owned()),
        ("me :0@0 myself,master - 0 0 1 connected 0-9", there.to_owned()),
        ("me :0@0 myself,master - 0 0 1 connected 0-9 [5->-u]", there.to_owned()),
    ] {
        assert!(matches!(asked(here, &there), Err(Objection::NotNow(_))), "{here} {there}");
    }
}

#[test]
fn slots_are_taken_in_order_up_to_the_limit_and_the_first_always() {
    let taken = |most| {
        let portion = portion(&[(1, 5), (2, 5), (3, 0), (7, 1)], most);
        (portion.slots.to_string(), portion.keys)
    };
    assert_eq!(taken(0), ("1-3,7".into(), 11));
    assert_eq!(taken(10), ("1-3".into(), 10));
    assert_eq!(taken(9), ("1".into(), 5));
    assert_eq!(taken(1), ("1".into(), 5));
    assert_eq!(portion(&[], 1), Portion::default());
}

#[test]
fn big_keys_go_alone_and_get_more_time() {
    assert_eq!(batch(&[10; 500]), KEYS_AT_ONCE);
    assert_eq!(batch(&[BYTES_AT_ONCE / 2, BYTES_AT_ONCE / 2, 1]), 2);
    assert_eq!([batch(&[u64::MAX, 1]), batch(&[1, u64::MAX])], [1, 1]);
    let node_timeout = Duration::from_secs(5);
    let huge = sending(1 << 30, node_timeout);
    assert!(huge.silence > Duration::from_secs(200) && !huge.twice, "{huge:?}");
    for node_timeout in [1_000, 5_000, 15_000].map(Duration::from_millis) {
        let small = sending(BYTES_AT_ONCE, node_timeout);
        assert!(small.twice && small.silence * 2 <= node_timeout / 2, "{small:?}");
    }
}

#[test]
fn a_batch_is_small_where_keys_are_big_and_where_it_took_long() {
    assert_eq!([keys_at_once(0, 0), keys_at_once(100_000, 1_000)], [BATCH_KEYS; 2]);
    assert_eq!([keys_at_once(1 << 30, 1 << 10), keys_at_once(1 << 40, 2)], [8, 1]);
    let took = |taken, milliseconds| next_batch(128, taken, Duration::from_millis(milliseconds));
    assert_eq!([took(128, 250), took(3, 250), took(128, 251), took(1, 900)], [128, 128, 64, 1]);
}

#[test]
fn an_open_slot_is_turned_back_only_from_a_node_that_has_none_of_its_keys() {
    let there = |view: &str, keys| Some(FarEnd { view: nodes(view), keys });
    let asked = |there: Option<FarEnd>| close(&nodes(NODES), 5, &"t".into(), there.as_ref(), true);
    let primary = "t :0@0 myself,master - 0 0 2 connected\n";
    let replica = "t :0@0 myself,slave x 0 0 2 connected\n";
    assert_eq!(asked(there(primary, 7)), Ok(Closing::Finish));
    assert_eq!(asked(there(replica, 0)), Ok(Closing::TurnBack));
    for there in [None, there(replica, 1), there("x :0@0 myself,master - 0 0 2 connected\n", 0)] {
        assert!(matches!(asked(there), Err(Objection::NotNow(why)) if why.contains("CLUSTER SETSLOT 5 STABLE")));
    }
    let unasked = |keys| close(&nodes(NODES), 5, &"t".into(), there(primary, keys).as_ref(), false);
    assert_eq!((unasked(0), unasked(1)), (Ok(Closing::TurnBack), Ok(Closing::Finish)));
}
