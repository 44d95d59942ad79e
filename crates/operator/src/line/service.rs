//! The operator's answers on the line: heartbeats and reports go into the roster, streams to the streams.

use super::roster::Roster;
use super::streams::CommandStreams;
use crate::metrics::{Metrics, Refused};
use k8s_openapi::jiff::Timestamp;
use link::contract::{HeartbeatRequest, ReportRequest};
use link::server::{Attention, Operator, Session, Sidecar};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

pub struct LineService {
    pub roster: Arc<Roster>,
    pub streams: Arc<CommandStreams>,
    /// The highest epoch any sidecar has seen; whoever holds the Lease stays above it.
    pub highest_epoch: watch::Sender<u64>,
    pub heartbeat_interval: Duration,
    pub metrics: Arc<Metrics>,
}

impl LineService {
    fn note_epoch(&self, seen: u64, sidecar: &Sidecar) {
        if !is_believable(seen, Timestamp::now()) {
            self.metrics.line_refusals.get_or_create(&Refused { reason: "UnbelievableEpoch" }).inc();
            tracing::debug!(pod = sidecar.pod.pod, namespace = sidecar.pod.namespace, seen, "no leader had this term");
            return;
        }
        self.highest_epoch.send_if_modified(|highest| {
            let higher = seen > *highest;
            *highest = seen.max(*highest);
            higher
        });
    }
}

/// Terms grow by one with each leader, and none leads for less than a millisecond: there were fewer than milliseconds since 1970.
/// This limit grows faster than terms do. Whatever number somebody makes up today, one above it is believed later, from sidecars
/// that a leader without its Lease must catch up with; below a fixed limit that would end some day.
fn is_believable(term: u64, now: Timestamp) -> bool {
    u64::try_from(now.as_millisecond()).is_ok_and(|highest| term <= highest)
}

impl Operator for LineService {
    async fn heartbeat(&self, sidecar: &Sidecar, beat: HeartbeatRequest) -> Attention {
        self.note_epoch(beat.highest_epoch, sidecar);
        self.roster.heartbeat(sidecar, beat);
        let stay_connected = self.streams.wants(&sidecar.pod.pod_uid);
        Attention { next_heartbeat: self.heartbeat_interval, stay_connected }
    }

    async fn report(&self, sidecar: &Sidecar, report: ReportRequest) {
        let event = report.event.as_ref().map(|event| format!("{event:?}")).unwrap_or_default();
        let (pod, namespace) = (&sidecar.pod.pod, &sidecar.pod.namespace);
        tracing::info!(cluster = sidecar.pod.cluster, namespace, pod, event, "a sidecar reports");
        self.roster.report(&sidecar.pod, report);
    }

    async fn orchestrate(&self, session: Session) {
        self.streams.host(session, &self.roster).await;
    }

    fn disconnected(&self, sidecar: &Sidecar) {
        self.roster.disconnected(sidecar);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_after_the_highest_term_that_anybody_can_make_up_are_believed() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let made_up = 1_800_000_000_000;
        assert!(is_believable(made_up, now) && !is_believable(made_up + 1, now) && !is_believable(1 << 61, now));
        let a_minute_later = Timestamp::from_second(1_800_000_060).unwrap();
        assert!(is_believable(made_up + 1_000, a_minute_later), "its leader and those after it");
    }
}
