use super::*;
use link::contract::ValkeyDied;
use std::io;

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pod(name: &str) -> ProvenPod {
    ProvenPod {
        namespace: "team-a".into(),
        cluster: "orders".into(),
        cluster_uid: "cluster".into(),
        pod: name.into(),
        pod_uid: format!("uid-of-{name}"),
    }
}

fn log() -> ReportLog {
    ReportLog::new(Arc::new(Metrics::new()))
}

#[test]
fn a_sidecar_that_reports_without_end_fills_no_log() {
    let (log, page) = (log(), Page::default());
    let writer = page.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let detail = "x".repeat(60_000);
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..1_000 {
            log.tell(&pod("orders-0"), Some(&Event::ValkeyDied(ValkeyDied { exit_status: 1, detail: detail.clone() })));
        }
        log.tell(&pod("orders-1"), None);
    });
    let page = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = page.lines().collect();
    assert_eq!(lines.len(), 42, "so many, the word that there is more, and the other pod's own");
    assert!(lines.iter().all(|line| line.len() < 1_000), "{:?}", lines.first());
    assert!(lines[40].contains("without end") && lines[41].contains("orders-1"), "{:?}", &lines[40..]);
    assert!(log.metrics.print().contains("valkey_operator_reports_not_logged_total 960\n"));
}

#[test]
fn after_a_while_a_pod_is_heard_again_and_told_of_once_again() {
    let (log, start) = (log(), Instant::now());
    let said = |at: Instant| (0..100).map(|_| log.say("pod", at)).collect::<Vec<_>>();
    for at in [start, start + WINDOW] {
        let said = said(at);
        let count = |wanted| said.iter().filter(|say| **say == wanted).count();
        assert_eq!((count(Say::It), count(Say::More), count(Say::Nothing)), (40, 1, 59));
    }
    log.say("other", start + WINDOW * 2);
    assert_eq!(log.pods.lock().unwrap().by_uid.len(), 1, "who said nothing for long is forgotten");
}
