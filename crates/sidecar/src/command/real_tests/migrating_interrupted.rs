//! A migration key by key that ends in the middle: by its deadline, by the end of the target, by the end of the source.

use super::{
    cluster::{Node, eventually, failover, formed, formed_of, migrate},
    keys::{count, fill, key, owns, patient, value},
    open_slots::{open, send},
};
use crate::{
    command::{
        execution::Execution,
        migrate_slots::{batch::Ends, other_end::OtherEnd},
    },
    slot_moves::history,
};
use link::contract::{FailoverMode, answer::Outcome};
use std::{net::SocketAddr, time::Duration};
use tokio::{io::AsyncWriteExt, net::TcpListener};
use valkey::{
    Migration, SlotOwner,
    testing::{BOTH_VERSIONS, ServerVersion},
};

const SLOT: (u32, u32) = (5, 5);

#[tokio::test]
async fn a_command_whose_time_is_over_in_a_slot_is_continued_by_the_next() {
    let nodes = formed(ServerVersion::V8_1).await;
    let target = nodes[1].id().await;
    fill(&nodes[0], 5, 40_000).await;
    let (mut deadline, mut outcomes) = (Duration::from_millis(300), Vec::new());
    while !matches!(outcomes.last(), Some(Outcome::Done(_))) {
        outcomes.push(nodes[0].run_within(migrate(SLOT, &target, 0), deadline).await);
        deadline *= 2;
    }
    let late = |outcome: &Outcome| matches!(outcome, Outcome::Failed(failed) if failed.deadline_passed);
    assert!(outcomes.len() > 1 && outcomes[..outcomes.len() - 1].iter().all(late), "{outcomes:?}");
    assert_eq!((count(&nodes[0], 5).await, count(&nodes[1], 5).await), (0, 40_000));
}

/// Valkey moves no slots by itself while any is open.
async fn not_by_itself(nodes: &[Node]) {
    let third = nodes[2].id().await.as_str().into();
    patient(&nodes[1]).await.cluster_set_slot(11_000, SlotOwner::Importing(&third)).await.unwrap();
}

async fn failed_migrates(node: &Node) -> u64 {
    let info = patient(node).await.info(&["commandstats"]).await.unwrap();
    let stats = info.text("cmdstat_migrate").unwrap_or_default();
    stats.split(',').find_map(|pair| pair.strip_prefix("failed_calls=")?.parse().ok()).unwrap_or_default()
}

/// It takes the keys when it runs again, and nobody hears so: they are on both ends then. One that was deleted meanwhile comes back there.
#[tokio::test]
async fn a_target_that_hangs_during_a_migrate_gets_the_same_keys_again() {
    for version in BOTH_VERSIONS {
        for deleted in [false, true] {
            let nodes = formed(version).await;
            let target = nodes[1].id().await;
            not_by_itself(&nodes).await;
            fill(&nodes[0], 5, 60_000).await;
            let hang = async {
                eventually("keys arrive", async || count(&nodes[1], 5).await > 0).await;
                nodes[1].server.freeze().unwrap();
                eventually("a MIGRATE is given up", async || failed_migrates(&nodes[0]).await > 0).await;
                if deleted {
                    delete_all(&nodes[0], 5).await;
                }
                nodes[1].server.thaw().unwrap();
            };
            let (outcome, ()) = tokio::join!(nodes[0].run(migrate(SLOT, &target, 0)), hang);
            assert!(matches!(&outcome, Outcome::Failed(failed) if failed.detail.contains("stays open")), "{outcome:?}");
            if deleted {
                let outcome = nodes[0].run(migrate(SLOT, &target, 0)).await;
                let named = |detail: &str| detail.contains("went away here while it was on its way");
                assert!(matches!(&outcome, Outcome::Failed(failed) if named(&failed.detail)), "{outcome:?}");
                assert!(!owns(&nodes[1], 5).await);
                continue;
            }
            eventually("it is finished", async || owned(&nodes, &target).await).await;
            assert_eq!((count(&nodes[0], 5).await, count(&nodes[1], 5).await), (0, 60_000));
        }
    }
}

async fn owned(nodes: &[Node], target: &str) -> bool {
    matches!(nodes[0].run(migrate(SLOT, target, 0)).await, Outcome::Done(_)) && owns(&nodes[1], 5).await
}

async fn delete_all(node: &Node, slot: u16) {
    let mut connection = patient(node).await;
    let keys = connection.cluster_keys_in_slots(&[slot], 100_000).await.unwrap().remove(0);
    let delete = keys.into_iter().map(|key| vec![b"DEL".to_vec(), key]);
    connection.pipeline(&delete.collect::<Vec<_>>()).await.unwrap();
}

/// While one MIGRATE waits for a target that hangs, the source serves nobody: it is not made to wait for the next slot's.
#[tokio::test]
async fn nothing_more_is_sent_to_a_target_that_hangs() {
    let nodes = formed(ServerVersion::V8_1).await;
    let target = nodes[1].id().await;
    for slot in 0..200 {
        fill(&nodes[0], slot, 20).await;
    }
    let hang = async {
        eventually("keys arrive", async || owns(&nodes[1], 3).await).await;
        nodes[1].server.freeze().unwrap();
    };
    let (outcome, ()) = tokio::join!(nodes[0].run(migrate((0, 199), &target, 0)), hang);
    let failed = failed_migrates(&nodes[0]).await;
    assert!(failed <= 2, "{failed} MIGRATEs waited for it, and only the one under way is tried twice: {outcome:?}");
    nodes[1].server.thaw().unwrap();
}

/// The replica that takes over has a key that had gone to the target already, and has acknowledged a write to it.
#[tokio::test]
async fn a_slot_whose_source_was_taken_over_is_not_given_away() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let (target, successor) = (nodes[1].id().await, nodes[3].id().await);
        fill(&nodes[0], 5, 1).await;
        eventually("the replica has it", async || count(&nodes[3], 5).await == 1).await;
        open(&nodes).await;
        let mut execution = Execution::new(&nodes[0].context, Duration::from_secs(60));
        let server = execution.observe().await.unwrap();
        let other = OtherEnd::find(server.nodes.as_ref().unwrap(), &target.as_str().into()).unwrap();
        let mut ends = Ends::open(&execution, &other, &server, 1).await.unwrap();
        nodes[3].server.freeze().unwrap();
        patient(&nodes[0]).await.call(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
        send(&nodes, &["0"]).await;
        assert_eq!((count(&nodes[0], 5).await, count(&nodes[1], 5).await), (0, 1));
        nodes[0].server.freeze().unwrap();
        nodes[3].server.thaw().unwrap();
        patient(&nodes[3]).await.cluster_failover_takeover().await.unwrap();
        eventually("the target has heard of it", async || {
            let view = patient(&nodes[1]).await.cluster_nodes().await.unwrap();
            view.owner_of(5).is_some_and(|owner| owner.id.as_str() == successor)
        })
        .await;
        let set = patient(&nodes[3]).await.call(&["SET", &key(5, "0"), "new"]).await.unwrap();
        assert_eq!(set.into_text(), "OK");
        nodes[0].server.thaw().unwrap();
        let moved = ends.close(&[5]).await;
        assert!(moved.slots.is_empty() && moved.problem.is_some());
        assert!(owns(&nodes[3], 5).await && !owns(&nodes[1], 5).await);
        assert_eq!(value(&nodes[3], 5, "0").await, "new");
    }
}

#[tokio::test]
async fn a_target_that_dies_in_the_middle_is_succeeded_and_nothing_is_lost() {
    for version in BOTH_VERSIONS {
        let mut nodes = formed(version).await;
        let target = nodes[1].id().await;
        fill(&nodes[0], 5, 100).await;
        open(&nodes).await;
        send(&nodes, &["0", "1", "2"]).await;
        eventually("the replica has them", async || count(&nodes[4], 5).await == 3).await;
        nodes[1].server.kill().unwrap();
        let outcome = nodes[0].run(migrate(SLOT, &target, 0)).await;
        assert!(matches!(&outcome, Outcome::Failed(failed) if failed.detail.contains("half moved")), "{outcome:?}");
        nodes[4].done(failover(FailoverMode::Force)).await;
        let successor = nodes[4].id().await;
        // A target without a copy of its own gets nothing.
        nodes[1].server.start_again().unwrap();
        eventually("it is finished with the successor", async || {
            matches!(nodes[0].run(migrate(SLOT, &successor, 0)).await, Outcome::Done(_))
        })
        .await;
        assert!(owns(&nodes[4], 5).await);
        assert_eq!((count(&nodes[0], 5).await, count(&nodes[4], 5).await), (0, 100));
    }
}

#[tokio::test]
async fn a_source_that_is_killed_in_the_middle_goes_on_when_it_is_back() {
    for version in BOTH_VERSIONS {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let mut nodes = formed_of((0..3).map(|_| Node::start_with(version, &durable)).collect()).await;
        let target = nodes[1].id().await;
        fill(&nodes[0], 5, 100).await;
        open(&nodes).await;
        send(&nodes, &["0", "1", "2"]).await;
        nodes[0].server.kill().unwrap();
        nodes[0].server.start_again().unwrap();
        eventually("it is finished", async || {
            matches!(nodes[0].run(migrate(SLOT, &target, 0)).await, Outcome::Done(_))
        })
        .await;
        assert_eq!((count(&nodes[0], 5).await, count(&nodes[1], 5).await), (0, 100));
        let moves = patient(&nodes[1]).await.cluster_nodes().await.unwrap().myself().unwrap().moves.clone();
        assert!(moves.is_empty(), "{moves:?}");
    }
}

/// The operator's line breaks while a MIGRATE waits for a target that hangs.
#[tokio::test]
async fn a_command_that_is_broken_off_leaves_a_note_of_what_is_on_its_way() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        let target = nodes[1].id().await;
        not_by_itself(&nodes).await;
        fill(&nodes[0], 5, 60_000).await;
        let history = history(&patient(&nodes[0]).await.info(&["server", "replication"]).await.unwrap());
        let hang = async {
            eventually("keys arrive", async || count(&nodes[1], 5).await > 0).await;
            nodes[1].server.freeze().unwrap();
            let moves = &nodes[0].context.shared.slot_moves;
            let waits = || moves.opened(5, &target.as_str().into(), &history).is_some_and(|opened| opened.to_cut);
            eventually("a MIGRATE waits for it", async || waits()).await;
        };
        tokio::select! {
            outcome = nodes[0].run(migrate(SLOT, &target, 0)) => panic!("{outcome:?}"),
            () = hang => {}
        }
        let opened = nodes[0].context.shared.slot_moves.opened(5, &target.as_str().into(), &history).unwrap();
        assert!(opened.to_cut && opened.unanswered.is_empty(), "{opened:?}");
        nodes[1].server.thaw().unwrap();
        eventually("it is finished", async || owned(&nodes, &target).await).await;
        assert_eq!((count(&nodes[0], 5).await, count(&nodes[1], 5).await), (0, 60_000));
    }
}

/// Valkey lists them until it comes across them.
#[tokio::test]
async fn keys_whose_time_is_over_do_not_keep_a_slot_open() {
    for version in BOTH_VERSIONS {
        let start = |_| Node::start_with(version, &["--enable-debug-command", "yes"]);
        let nodes = formed_of((0..6).map(start).collect()).await;
        let target = nodes[1].id().await;
        not_by_itself(&nodes).await;
        patient(&nodes[0]).await.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]).await.unwrap();
        fill(&nodes[0], 5, 300).await;
        for index in 0..290 {
            patient(&nodes[0]).await.call(&["PEXPIRE", &key(5, &index.to_string()), "1"]).await.unwrap();
        }
        // Whoever asked for one of them would have it go.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(count(&nodes[0], 5).await, 300);
        let outcome = nodes[0].run_within(migrate(SLOT, &target, 0), Duration::from_secs(10)).await;
        assert!(matches!(&outcome, Outcome::Done(done) if done.moved.unwrap().keys == 10), "{outcome:?}");
        assert_eq!((count(&nodes[0], 5).await, count(&nodes[1], 5).await), (0, 10));
    }
}

/// On each connection it gives so many answers, and then falls silent; SELECT is answered too.
async fn target_that_answers(times: &'static [usize]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        for times in times {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all("+OK\r\n".repeat(*times).as_bytes()).await.unwrap();
            open.push(stream);
        }
        std::future::pending::<()>().await;
    });
    address
}

#[tokio::test]
async fn of_an_interrupted_migrate_those_that_were_acknowledged_are_not_in_doubt() {
    for version in BOTH_VERSIONS {
        let nodes = formed(version).await;
        fill(&nodes[0], 5, 3).await;
        open(&nodes).await;
        let (to, silence) = (target_that_answers(&[2, 0]).await, Duration::from_millis(300));
        let keys = ["0", "1", "2"].map(|name| key(5, name).into_bytes());
        let mut here = patient(&nodes[0]).await;
        let tries = here.migrate_twice(to, &keys, silence, false).await.unwrap();
        assert!(matches!(tries.end, Migration::Interrupted(_)) && tries.given_up, "{tries:?}");
        assert_eq!(tries.still_here, keys[1..]);
        // One that is gone before: none is sent.
        let tries = here.migrate_twice(to, &keys, silence, false).await.unwrap();
        assert_eq!((tries.end, tries.still_here.len()), (Migration::NoKey, 0));
        let gone = here.memory_usage(&keys).await.unwrap();
        assert!(gone[0] == 0 && gone[1] > 0, "{gone:?}");
        // What the first try sent may still come, although the second came through.
        let to = target_that_answers(&[0, 3]).await;
        let tries = here.migrate_twice(to, &keys[1..], silence, false).await.unwrap();
        assert_eq!((tries.end, tries.given_up, tries.still_here.len()), (Migration::Done, true, 0));
    }
}
