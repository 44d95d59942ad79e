//! What /status and /metrics show of the line. Pure data; the line manager writes it.

use jiff::Timestamp;
use link::{Credentials, client::LineState};
use serde::Serialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineStatus {
    pub connected: bool,
    /// The operator has a job for this pod.
    pub streaming: bool,
    /// Why there is no line.
    pub problem: Option<String>,
    /// The highest leader's term that is known.
    pub epoch: u64,
    /// Why that is not on the volume.
    pub epoch_problem: Option<String>,
    pub last_heartbeat: Option<Timestamp>,
    pub round_trip_microseconds: u64,
    /// Thumbprint of the certificate the open connection was made with.
    pub connection_certificate: String,
    pub certificate: Option<CertificateStatus>,
    /// Why the mounted certificate cannot be used; the last good one stays in force.
    pub certificate_problem: Option<String>,
}

/// The certificate in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    pub id: String,
    pub thumbprint: String,
    pub issued: Timestamp,
    pub expires: Timestamp,
    pub trusted_roots: Vec<String>,
}

impl LineStatus {
    /// As if there had never been a connection.
    pub fn down(&mut self, problem: String) {
        (self.connected, self.streaming, self.problem) = (false, false, Some(problem));
    }

    pub fn follow(&mut self, state: &LineState) {
        self.connected = state.connected;
        self.streaming = state.streaming;
        self.problem.clone_from(&state.problem);
        self.epoch = self.epoch.max(state.epoch);
        self.last_heartbeat = state.last_heartbeat.and_then(|time| Timestamp::try_from(time).ok());
        self.round_trip_microseconds = u64::try_from(state.round_trip.as_micros()).unwrap_or(u64::MAX);
        self.connection_certificate.clone_from(&state.certificate);
    }
}

impl From<&Credentials> for CertificateStatus {
    fn from(credentials: &Credentials) -> Self {
        Self {
            id: credentials.id().to_string(),
            thumbprint: credentials.thumbprint().to_string(),
            issued: credentials.leaf().not_before,
            expires: credentials.expires(),
            trusted_roots: credentials.trusted_roots().iter().map(ToString::to_string).collect(),
        }
    }
}
