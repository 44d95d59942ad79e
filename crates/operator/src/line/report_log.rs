//! What the log says of sidecars' reports: a line each, short, and so many of one pod. A tenant's sidecar reports what it likes, as
//! often as it likes; the log is everybody's.

use crate::metrics::Metrics;
use crate::shortened::shortened;
use link::contract::report_request::Event;
use link::server::ProvenPod;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one pod within `WINDOW`. A pod in trouble has a handful of events; when its connection comes back it sends up to 32 that
/// it kept.
const LINES: u32 = 40;
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Say {
    It,
    /// That there is more, and that it is not shown.
    More,
    Nothing,
}

struct Told {
    since: Instant,
    reports: u32,
}

#[derive(Default)]
struct Pods {
    by_uid: HashMap<String, Told>,
    /// When those that said nothing for long were last forgotten.
    forgotten: Option<Instant>,
}

pub struct ReportLog {
    metrics: Arc<Metrics>,
    pods: Mutex<Pods>,
}

impl ReportLog {
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, pods: Mutex::default() }
    }

    pub fn tell(&self, sender: &ProvenPod, event: Option<&Event>) {
        let (cluster, namespace, pod) = (&sender.cluster, &sender.namespace, &sender.pod);
        match self.say(&sender.pod_uid, Instant::now()) {
            Say::It => {
                let event = event.map(|event| shortened(format_args!("{event:?}"))).unwrap_or_default();
                tracing::info!(cluster, namespace, pod, event, "a sidecar reports");
            }
            Say::More => {
                tracing::warn!(
                    cluster,
                    namespace,
                    pod,
                    "a sidecar reports without end: not shown for up to {WINDOW:?}"
                );
            }
            Say::Nothing => {}
        }
    }

    fn say(&self, pod_uid: &str, now: Instant) -> Say {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if pods.forgotten.is_none_or(|forgotten| now >= forgotten + WINDOW) {
            pods.forgotten = Some(now);
            pods.by_uid.retain(|_, told| now < told.since + WINDOW);
        }
        let told = pods.by_uid.entry(pod_uid.to_owned()).or_insert(Told { since: now, reports: 0 });
        if now >= told.since + WINDOW {
            *told = Told { since: now, reports: 0 };
        }
        told.reports = told.reports.saturating_add(1);
        if told.reports <= LINES {
            return Say::It;
        }
        self.metrics.reports_not_logged.inc();
        if told.reports == LINES + 1 { Say::More } else { Say::Nothing }
    }
}

#[cfg(test)]
#[path = "report_log_tests.rs"]
mod tests;
