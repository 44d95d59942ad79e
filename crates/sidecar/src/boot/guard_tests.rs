use super::*;
use std::{fs, path::Path, thread};

fn guard(folder: &Path) -> BootGuard {
    let paths =
        BootPaths { fifo: folder.join("valkey.conf"), conf: "rendered.conf".into(), data_dir: folder.to_owned() };
    fifo::ensure(&paths.fifo).unwrap();
    let shared = Shared::default();
    let (gate, process) = (shared.gate.clone(), ProcessWatch::default());
    gate.conf_rendered();
    let errors = ErrorLog::default();
    BootGuard { paths, gate, shared, process, patience: Duration::ZERO, version: None, errors }
}

/// What a Valkey that comes reads, and whether the note of the last stop was there then.
fn read_by_valkey(guard: &BootGuard) -> (String, bool) {
    let (fifo, data_dir) = (guard.paths.fifo.clone(), guard.paths.data_dir.clone());
    let reading = thread::spawn(move || {
        let lines = fs::read_to_string(fifo).unwrap();
        (lines.lines().next().unwrap().to_owned() + "\n", StopNote::is_there(&data_dir))
    });
    while !reading.is_finished() {
        guard.let_through(Start::AsIs, false, false);
    }
    reading.join().unwrap()
}

#[test]
fn the_note_of_the_last_stop_is_gone_before_a_valkey_may_start() {
    let folder = tempfile::tempdir().unwrap();
    let guard = guard(folder.path());
    StopNote::now("me".into()).write(folder.path()).unwrap();
    assert_eq!(guard.let_through(Start::AsIs, false, false), Passage::Closed);
    assert!(StopNote::is_there(folder.path()), "no Valkey has come: the next start is still the one after the stop");
    assert_eq!(read_by_valkey(&guard), (guard.line(), false));
}

#[test]
fn a_valkey_does_not_start_over_a_note_that_cannot_be_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let guard = guard(folder.path());
    fs::create_dir(folder.path().join("sidecar-stop.json")).unwrap();
    assert_eq!(read_by_valkey(&guard), (DISMISSAL.to_owned(), true));
}

#[test]
fn while_one_starts_its_nodes_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (guard, file) = (guard(folder.path()), folder.path().join("nodes.conf"));
    let nodes = "me 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-5460\n";
    fs::write(&file, nodes).unwrap();
    for (start, concede) in [(Start::AsIs, true), (Start::Fresh, false)] {
        assert_eq!(guard.let_through(start, concede, true), Passage::Closed);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), nodes);
    guard.let_through(Start::AsIs, true, false);
    assert_ne!(fs::read_to_string(&file).unwrap(), nodes);
}
