//! The operator's answers on the line: heartbeats and reports go into the roster, streams to the commander.

use super::commander::Commander;
use super::roster::Roster;
use crate::metrics::{Metrics, Refused};
use link::contract::{HeartbeatRequest, ReportRequest};
use link::server::{Attention, Operator, Session, Sidecar};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Terms grow by one with each leader. A sidecar that claims to have seen a higher one than this would use the numbers up.
const HIGHEST_BELIEVED: u64 = 1 << 62;

pub struct Desk {
    pub roster: Arc<Roster>,
    pub commander: Arc<Commander>,
    /// The highest epoch any sidecar has seen; whoever holds the Lease stays above it.
    pub highest_epoch: watch::Sender<u64>,
    pub heartbeat_interval: Duration,
    pub metrics: Arc<Metrics>,
}

impl Desk {
    fn note_epoch(&self, seen: u64, sidecar: &Sidecar) {
        if seen > HIGHEST_BELIEVED {
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

impl Operator for Desk {
    async fn heartbeat(&self, sidecar: &Sidecar, beat: HeartbeatRequest) -> Attention {
        self.note_epoch(beat.highest_epoch, sidecar);
        self.roster.heartbeat(sidecar, beat);
        let stay_connected = self.commander.wants(&sidecar.pod.pod_uid);
        Attention { next_heartbeat: self.heartbeat_interval, stay_connected }
    }

    async fn report(&self, sidecar: &Sidecar, report: ReportRequest) {
        let event = report.event.as_ref().map(|event| format!("{event:?}")).unwrap_or_default();
        let (pod, namespace) = (&sidecar.pod.pod, &sidecar.pod.namespace);
        tracing::info!(cluster = sidecar.pod.cluster, namespace, pod, event, "a sidecar reports");
        self.roster.report(&sidecar.pod, report);
    }

    async fn orchestrate(&self, session: Session) {
        self.commander.host(session, &self.roster).await;
    }

    fn disconnected(&self, sidecar: &Sidecar) {
        self.roster.disconnected(sidecar);
    }
}
