//! The operator's answers on the line: heartbeats and reports go into the roster, streams to the streams. Which terms sidecars say to have
//! seen changes nothing here: a term comes from the Lease alone, or a sidecar could cut off every other cluster.

use super::report_log::ReportLog;
use super::roster::Roster;
use super::streams::CommandStreams;
use link::contract::{HeartbeatRequest, ReportRequest};
use link::server::{Attention, Operator, ProvenPod, Session, Sidecar};
use std::sync::Arc;
use std::time::Duration;

pub struct LineService {
    pub roster: Arc<Roster>,
    pub streams: Arc<CommandStreams>,
    pub log: ReportLog,
    pub heartbeat_interval: Duration,
}

impl Operator for LineService {
    async fn heartbeat(&self, sidecar: &Sidecar, beat: HeartbeatRequest) -> Attention {
        self.roster.heartbeat(sidecar, beat);
        let stay_connected = self.streams.wants(&sidecar.pod.pod_uid);
        Attention { next_heartbeat: self.heartbeat_interval, stay_connected }
    }

    async fn report(&self, sidecar: &Sidecar, report: ReportRequest) {
        self.log.tell(&sidecar.pod, report.event.as_ref());
        self.roster.report(&sidecar.pod, report);
    }

    async fn orchestrate(&self, session: Session) {
        self.streams.host(session, &self.roster).await;
    }

    fn turned_away(&self, claimed: &ProvenPod, why: &str) {
        self.roster.turned_away(claimed, why);
    }

    fn disconnected(&self, sidecar: &Sidecar) {
        self.roster.disconnected(sidecar);
    }
}
