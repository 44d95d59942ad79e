use super::*;
use std::time::Duration;
use valkey::{ClusterInfo, FailingNodes};

const PRIMARY: &str = "run_id:abc\nrole:master\nused_memory:1000\nmaxmemory:0\nmaxmemory_policy:noeviction\n";
const REPLICA: &str = "run_id:abc\nrole:slave\nmaster_host:10.0.0.7\nmaster_port:6379\nmaster_link_status:";

fn context() -> Context<'static> {
    Context {
        seen_valkey: true,
        settled_run: Some("abc"),
        withheld: None,
        reads_when_down: false,
        apply_problem: None,
        held_back: None,
    }
}

fn pong(info: &str) -> Observation {
    Observation { answer: Answer::Pong, info: Some(Info::parse(info)), ..Default::default() }
}

fn refusing(message: &str, info: &str) -> Observation {
    let answer = Answer::Refused(Refusal::new(message));
    Observation { answer, info: Some(Info::parse(info)), ..Default::default() }
}

fn cluster(state_ok: bool, known_nodes: u64) -> Option<ClusterInfo> {
    let slots = if state_ok { 16384 } else { 10922 };
    let (size, current_epoch, my_epoch) = (3, 1, 1);
    let failing_nodes = Some(FailingNodes { possibly: 0, failed: 0 });
    Some(ClusterInfo {
        state_ok,
        slots_assigned: slots,
        slots_ok: slots,
        known_nodes,
        size,
        current_epoch,
        my_epoch,
        failing_nodes,
    })
}

fn condition(observation: &Observation) -> Condition {
    Condition::of(observation, &context())
}

#[test]
fn each_refusal_is_its_own_condition_and_none_of_them_kills() {
    let cases = [
        ("LOADING x", Kind::Loading),
        ("BUSY x", Kind::BusyScript),
        ("MASTERDOWN x", Kind::ReplicaNotInSync),
        ("MISCONF x", Kind::PersistenceFailing),
        ("NOAUTH x", Kind::AuthenticationRequired),
        ("CLUSTERDOWN x", Kind::ClusterDown),
        ("ERR max number of clients reached", Kind::TooManyClients),
        ("ERR anything", Kind::Refusing),
    ];
    for (message, kind) in cases {
        let condition = condition(&refusing(message, ""));
        assert_eq!(condition.kind, kind, "{message}");
        assert!(condition.kind.is_alive() && !condition.kind.is_ready(), "{message}");
    }
}

#[test]
fn silence_absence_before_and_after_the_first_answer_are_told_apart() {
    let with = |answer| Observation { answer, ..Default::default() };
    let silent = condition(&with(Answer::Silence(Duration::from_secs(2))));
    assert_eq!((silent.kind, silent.kind.is_alive()), (Kind::Hung, false));
    assert_eq!(condition(&with(Answer::NobodyListens)).kind, Kind::Dead);
    let before = Context { seen_valkey: false, ..context() };
    assert_eq!(Condition::of(&with(Answer::NobodyListens), &before).kind, Kind::Starting);
}

#[test]
fn a_server_held_back_at_the_gate_is_left_alone_and_not_ready() {
    let held = Context { held_back: Some("its data is gone"), ..context() };
    let nobody = Observation { answer: Answer::NobodyListens, ..Default::default() };
    let condition = Condition::of(&nobody, &held);
    assert_eq!((condition.kind, condition.detail.as_str()), (Kind::WaitingAtGate, "its data is gone"));
    assert!(condition.kind.is_to_be_left_alone() && !condition.kind.is_alive() && !condition.kind.is_ready());
    assert!(!Kind::Dead.is_to_be_left_alone() && Kind::Loading.is_to_be_left_alone());
}

#[test]
fn loading_says_how_far_it_is() {
    let info = "loading:1\nloading_loaded_perc:43.10\nloading_eta_seconds:3\n";
    assert_eq!(condition(&refusing("LOADING x", info)).detail, "43.10 % loaded, about 3 s left");
}

#[test]
fn a_replica_is_ready_only_with_its_link_up() {
    assert_eq!(condition(&pong(&format!("{REPLICA}up\n"))).kind, Kind::Ready);
    let down = condition(&pong(&format!("{REPLICA}down\nmaster_sync_in_progress:1\nmaster_sync_left_bytes:77\n")));
    assert_eq!(
        (down.kind, down.detail.as_str()),
        (Kind::ReplicaNotInSync, "copying from 10.0.0.7:6379, 77 bytes left")
    );
}

#[test]
fn a_node_is_ready_when_its_cluster_is_whole_even_if_that_is_one_node() {
    let cases =
        [(false, 1, Kind::ClusterDown), (true, 1, Kind::Ready), (false, 6, Kind::ClusterDown), (true, 6, Kind::Ready)];
    for (state_ok, known, kind) in cases {
        let observation = Observation { cluster: cluster(state_ok, known), ..pong(PRIMARY) };
        assert_eq!(condition(&observation).kind, kind);
    }
}

#[test]
fn a_node_of_a_cluster_that_is_down_is_ready_when_it_is_to_answer_reads() {
    let readers = Context { reads_when_down: true, ..context() };
    let of = |known| Condition::of(&Observation { cluster: cluster(false, known), ..pong(PRIMARY) }, &readers);
    assert_eq!(of(6).kind, Kind::Ready);
    assert!(of(6).detail.starts_with("for reads alone: 10922 of 16384"), "{}", of(6).detail);
    assert_eq!(of(1).kind, Kind::ClusterDown, "no cluster has taken it in");
}

#[test]
fn a_primary_that_takes_no_writes_yet_is_not_ready() {
    let withheld = Context { withheld: Some("the others hold it for failed"), ..context() };
    let condition = Condition::of(&pong(PRIMARY), &withheld);
    assert_eq!(
        (condition.kind, condition.kind.is_ready(), condition.kind.is_alive()),
        (Kind::WritesWithheld, false, true)
    );
    assert_eq!(condition.detail, "the others hold it for failed");
}

#[test]
fn a_server_that_has_not_got_its_settings_yet_is_alive_and_not_ready() {
    let context = Context { settled_run: Some("earlier"), ..context() };
    let condition = Condition::of(&pong(PRIMARY), &context);
    assert_eq!(condition.kind, Kind::ApplyingSettings);
    assert!(condition.kind.is_alive() && !condition.kind.is_ready());
}

#[test]
fn failing_persistence_is_a_full_disk_when_a_snapshot_has_no_room() {
    let with = |available| {
        let disk = Some(Disk { total: 1 << 30, available });
        Observation { disk, ..refusing("MISCONF x", "used_memory:100000000\n") }
    };
    assert_eq!(condition(&with(50_000_000)).kind, Kind::DiskFull);
    assert_eq!(condition(&with(900_000_000)).kind, Kind::PersistenceFailing);
}

#[test]
fn a_primary_out_of_memory_stays_ready_and_says_so() {
    let full = PRIMARY.replace("maxmemory:0", "maxmemory:900");
    assert_eq!(condition(&pong(&full)).kind, Kind::OutOfMemory);
    assert!(Kind::OutOfMemory.is_ready());
    let evicting = full.replace("noeviction", "allkeys-lru");
    assert_eq!(condition(&pong(&evicting)).kind, Kind::Ready);
}
