use super::*;
use crate::configuration::wanted::tests::{pod, settings, version};

const NOTHING: DataFolder = DataFolder { dump: false, append_only_files: false };

fn rendered(parameters: &[(&str, &str)], record: &Record, data: DataFolder, trust: Trust) -> String {
    let settings = settings(parameters);
    conf(&Inputs { pod: &pod(), settings: &settings, version: version("9.1"), record, data, trust })
}

fn hopeful(parameters: &[(&str, &str)], record: &Record) -> String {
    rendered(parameters, record, NOTHING, Trust::Hopeful)
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|own| own == line)
}

#[test]
fn the_pods_identity_and_places_are_in_the_file() {
    let text = hopeful(&[], &Record::default());
    for line in [
        "port 6379",
        "unixsocket /run/valkey/valkey.sock",
        "dir /data",
        "cluster-announce-ip 10.0.0.7",
        "cluster-announce-hostname poc-0.poc-headless.default.svc",
        "cluster-config-file nodes.conf",
        "appendonly no",
    ] {
        assert!(has(&text, line), "{line} in\n{text}");
    }
}

#[test]
fn modules_are_loaded_whatever_is_trusted_and_their_arguments_stay_one_each() {
    let modules = r#"[{"path":"/m/json.so"},{"path":"/m/limit.so","args":["most","1 2\nport 1",""]}]"#.parse().ok();
    let (settings, pod) = (settings(&[]), PodArguments { modules, ..pod() });
    for trust in [Trust::Hopeful, Trust::Proven] {
        let record = &Record::default();
        let text =
            conf(&Inputs { pod: &pod, settings: &settings, version: version("9.1"), record, data: NOTHING, trust });
        assert!(has(&text, "loadmodule /m/json.so"), "{text}");
        assert!(has(&text, r#"loadmodule /m/limit.so most "1 2\x0aport 1" """#), "{text}");
    }
    assert!(!hopeful(&[], &Record::default()).contains("loadmodule"));
}

#[test]
fn a_value_cannot_smuggle_in_a_directive() {
    let text = hopeful(&[("proc-title-template", "x\"\nuser default on nopass +@all ~*\n\\")], &Record::default());
    assert!(!text.contains("\nuser default"));
    assert!(has(&text, r#"proc-title-template "x\"\x0auser default on nopass +@all ~*\x0a\\""#), "{text}");
    let text = hopeful(&[("evil\nport 1", "1")], &Record::default());
    assert!(!text.contains("\nport 1\n"), "{text}");
}

#[test]
fn several_words_and_nothing_at_all_are_quoted() {
    let text = hopeful(&[("save", "60 100 5 1"), ("notify-keyspace-events", "")], &Record::default());
    assert!(has(&text, "save \"60 100 5 1\"") && has(&text, "notify-keyspace-events \"\""), "{text}");
}

#[test]
fn a_refused_value_is_replaced_by_the_last_accepted_one() {
    let mut record = Record { line: "9.1".into(), ..Default::default() };
    record.accept("hz", "50", "50");
    record.refuse("hz", "bogus", "not a number");
    assert!(has(&hopeful(&[("hz", "bogus")], &record), "hz 50"));
    record.accepted.clear();
    assert!(!hopeful(&[("hz", "bogus")], &record).contains("\nhz "));
    assert!(has(&hopeful(&[("hz", "60")], &record), "hz 60"));
}

#[test]
fn when_valkey_does_not_come_up_only_proven_live_values_stay() {
    let mut record = Record { line: "9.1".into(), ..Default::default() };
    record.accept("hz", "50", "50");
    let parameters = [("hz", "50"), ("maxmemory-policy", "bogus"), ("tcp-backlog", "100")];
    let text = rendered(&parameters, &record, NOTHING, Trust::Proven);
    assert!(has(&text, "hz 50") && has(&text, "tcp-backlog 100") && !text.contains("bogus"), "{text}");
    record.line = "8.1".into();
    assert!(!rendered(&parameters, &record, NOTHING, Trust::Proven).contains("\nhz "));
}

#[test]
fn a_dump_without_append_only_files_is_never_started_over() {
    let dump = DataFolder { dump: true, append_only_files: false };
    let wish = [("appendonly", "yes")];
    assert!(has(&rendered(&wish, &Record::default(), dump, Trust::Hopeful), "appendonly no"));
    assert!(has(&hopeful(&wish, &Record::default()), "appendonly yes"));
    let files = DataFolder { dump: true, append_only_files: true };
    assert!(has(&rendered(&[], &Record::default(), files, Trust::Hopeful), "appendonly yes"));
}
