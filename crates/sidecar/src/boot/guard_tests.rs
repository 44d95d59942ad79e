use super::*;
use std::{fs, path::Path, thread};
use tokio::task::yield_now;

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
    let (fifo, data_dir) = (guard.paths.fifo.clone(), guard.paths.data_dir.clone());
    let reading = thread::spawn(move || {
        let lines = fs::read_to_string(fifo).unwrap();
        (lines.lines().next().unwrap().to_owned() + "\n", StopNote::is_there(&data_dir))
    });
    let mut awaited = awaited(guard).await;
    while !reading.is_finished() {
        guard.let_through(Start::AsIs, false, &mut awaited).await;
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
