use super::{super::leave_note::LeaveNote, *};
use std::{fs, path::Path, thread};
use tokio::{task::yield_now, time::timeout};

fn guard(folder: &Path) -> BootGuard {
    let paths =
        BootPaths { fifo: folder.join("valkey.conf"), conf: "rendered.conf".into(), data_dir: folder.to_owned() };
    fifo::ensure(&paths.fifo).unwrap();
    let shared = Shared::default();
    let (gate, process) = (shared.gate.clone(), ProcessWatch::default());
    gate.conf_rendered();
    let (errors, notes) = (ErrorLog::default(), StopNotes::new(folder.join("valkey.sock"), folder.to_owned()));
    BootGuard { paths, gate, shared, process, notes, patience: Duration::ZERO, version: None, errors }
}

async fn awaited(guard: &BootGuard) -> Awaited {
    let disk = guard.disk().await;
    Awaited { began: Instant::now(), ended: None, disk, inquiry: None, passed: None, prepared: Prepared::default() }
}

/// What a Valkey that comes reads, and whether the note of the last stop was there then.
async fn read_by_valkey(guard: &BootGuard) -> (String, bool) {
    read_in(guard, &mut awaited(guard).await).await
}

async fn read_in(guard: &BootGuard, awaited: &mut Awaited) -> (String, bool) {
    let (fifo, data_dir) = (guard.paths.fifo.clone(), guard.paths.data_dir.clone());
    let reading = thread::spawn(move || {
        let lines = fs::read_to_string(fifo).unwrap();
        (lines.lines().next().unwrap().to_owned() + "\n", StopNote::is_there(&data_dir))
    });
    while !reading.is_finished() {
        guard.let_through(Start::AsIs, false, awaited).await;
        yield_now().await;
    }
    reading.join().unwrap()
}

#[tokio::test]
async fn the_note_of_the_last_stop_is_gone_before_a_valkey_may_start() {
    let folder = tempfile::tempdir().unwrap();
    let guard = guard(folder.path());
    StopNote::now("me".into()).write(folder.path()).unwrap();
    let mut nobody = awaited(&guard).await;
    assert_eq!(guard.let_through(Start::AsIs, false, &mut nobody).await, Passage::Closed);
    assert!(StopNote::is_there(folder.path()), "no Valkey has come: the next start is still the one after the stop");
    assert_eq!(read_by_valkey(&guard).await, (guard.line(), false));
}

#[tokio::test]
async fn a_valkey_does_not_start_over_a_note_that_cannot_be_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let guard = guard(folder.path());
    fs::create_dir(folder.path().join("sidecar-stop.json")).unwrap();
    assert_eq!(read_by_valkey(&guard).await, (DISMISSAL.to_owned(), true));
}

/// The clock goes on by itself only while the thread has nothing to do: probes would be answered.
#[tokio::test(start_paused = true)]
async fn a_valkey_does_not_start_while_the_volume_hangs_and_the_note_cannot_be_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let guard = guard(folder.path());
    StopNote::now("me".into()).write(folder.path()).unwrap();
    let mut awaited = awaited(&guard).await;
    let hanging = volume::hang().await;
    assert_eq!(read_in(&guard, &mut awaited).await, (DISMISSAL.to_owned(), true));
    drop(hanging);
    assert_eq!(read_in(&guard, &mut awaited).await, (guard.line(), false));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_hangs_holds_up_only_the_node_that_is_to_start_afresh() {
    let folder = tempfile::tempdir().unwrap();
    let (guard, file) = (guard(folder.path()), folder.path().join("nodes.conf"));
    fs::write(&file, "damaged").unwrap();
    let mut awaited = awaited(&guard).await;
    let hanging = volume::hang().await;
    let mut passing = pin!(guard.let_through(Start::Fresh, false, &mut awaited));
    assert!(timeout(Duration::from_secs(60), &mut passing).await.is_err());
    assert!(file.exists(), "nothing is touched before the volume answers");
    drop(hanging);
    assert_eq!(passing.await, Passage::Afresh);
    assert!(!file.exists());
}

#[tokio::test]
async fn while_one_starts_its_nodes_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (guard, file) = (guard(folder.path()), folder.path().join("nodes.conf"));
    let nodes = "me 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-5460\n";
    fs::write(&file, nodes).unwrap();
    let mut awaited = awaited(&guard).await;
    awaited.passed = Some(Instant::now());
    for (start, concede) in [(Start::AsIs, true), (Start::Fresh, false)] {
        assert_eq!(guard.let_through(start, concede, &mut awaited).await, Passage::Closed);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), nodes);
    awaited.passed = None;
    guard.let_through(Start::AsIs, true, &mut awaited).await;
    assert_ne!(fs::read_to_string(&file).unwrap(), nodes);
}

#[tokio::test]
async fn what_a_node_had_before_it_left_its_cluster_is_set_aside_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let guard = guard(folder.path());
    fs::write(folder.path().join("nodes.conf"), "new :0@0 myself,master - 0 0 0 connected\n").unwrap();
    fs::write(folder.path().join("dump.rdb"), "old").unwrap();
    LeaveNote::write(folder.path(), "old").unwrap();
    let set_aside = async {
        while LeaveNote::is_there(folder.path()) {
            yield_now().await;
        }
    };
    tokio::select! {
        () = guard.until_alive(None) => panic!("no Valkey runs"),
        () = set_aside => {}
    }
    assert!(!folder.path().join("dump.rdb").exists() && !folder.path().join("nodes.conf").exists());
}
