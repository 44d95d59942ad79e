//! Watches the own server, the volume and the certificate, and reports to the operator what cannot wait for the next heartbeat.
//! IO; one task, started by `main`. The process's life and role come from the process monitor; what else counts is
//! `significant_state`, pure.

use super::{disk_room::DiskRoom, near_expiry::NearExpiry, significant_state::SignificantState};
use crate::{
    arguments::RunArguments,
    health::{disk, observation},
    process::{self, ProcessWatch},
    role::contract_role,
    state::Shared,
};
use jiff::Timestamp;
use link::{
    client::Notice,
    contract::{DiskFilling, RoleChanged, ValkeyDied, report_request::Event},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::broadcast::{self, error::RecvError};

/// Three requests over a Unix socket each time.
const INTERVAL: Duration = Duration::from_millis(500);
/// The volume fills slowly, and asking it takes a thread.
const VOLUME_INTERVAL: Duration = Duration::from_secs(10);

pub struct Watch {
    arguments: Arc<RunArguments>,
    shared: Shared,
    last: SignificantState,
    room: DiskRoom,
    expiry: NearExpiry,
    volume_checked: Option<Instant>,
    events: broadcast::Receiver<process::Event>,
}

impl Watch {
    pub fn new(arguments: Arc<RunArguments>, shared: Shared, process: &ProcessWatch) -> Self {
        let (last, room, expiry) = (SignificantState::default(), DiskRoom::default(), NearExpiry::default());
        Self { arguments, shared, last, room, expiry, volume_checked: None, events: process.events() }
    }

    pub async fn run(mut self) {
        loop {
            self.check_server().await;
            self.check_certificate();
            if self.volume_checked.is_none_or(|at| at.elapsed() >= VOLUME_INTERVAL) {
                self.volume_checked = Some(Instant::now());
                self.check_volume().await;
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                event = self.events.recv() => self.take(event),
            }
        }
    }

    fn take(&mut self, event: Result<process::Event, RecvError>) {
        match event {
            Ok(process::Event::Died { run_id }) => self.died(&run_id),
            Ok(process::Event::RoleChanged { from, to }) => {
                self.shared.report(Event::RoleChanged(RoleChanged {
                    from: contract_role(Some(from)).into(),
                    to: contract_role(Some(to)).into(),
                }));
            }
            Ok(process::Event::Answers { .. }) => self.shared.ask_for_review(),
            // What was missed shows in the check that follows.
            Err(_) => {}
        }
    }

    fn died(&self, run_id: &str) {
        tracing::warn!(run_id, "Valkey's process ended");
        let detail = format!("the process with run id {run_id} closed its connection and nobody listens any more");
        self.shared.report(Event::ValkeyDied(ValkeyDied { exit_status: 0, detail }));
    }

    async fn check_server(&mut self) {
        let observed = observation::ask_server(&self.arguments.pod.socket(), self.arguments.probe_deadline).await;
        let kind = self.shared.judge(&observed).kind;
        let state = SignificantState::of(&observed, kind, &self.shared.lock());
        if state == self.last {
            return;
        }
        if let Some(refused) = state.refused_since(&self.last) {
            self.shared.report(Event::SettingsRefused(refused));
        }
        self.shared.lock().role = state.role;
        self.last = state;
        self.shared.notify_operator(Notice::Changed);
    }

    async fn check_volume(&mut self) {
        let Some(disk) = disk::ask(&self.arguments.pod.data_dir, self.arguments.probe_deadline).await else { return };
        if self.room.is_filling(disk) {
            tracing::warn!(available = disk.available, size = disk.total, "the data volume fills up");
            let filling = DiskFilling { size_bytes: disk.total, available_bytes: disk.available };
            self.shared.report(Event::DiskFilling(filling));
        }
    }

    fn check_certificate(&mut self) {
        let certificate = self.shared.lock().line.certificate.clone();
        let event = certificate.and_then(|certificate| self.expiry.news(&certificate, Timestamp::now()));
        if let Some(event) = event {
            tracing::warn!(?event, "the certificate for the line was not renewed in time");
            self.shared.report(Event::CertificateNearExpiry(event));
        }
    }
}
