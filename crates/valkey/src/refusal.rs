//! An error reply of the server, classified by its code. Pure; probes decide by it.

use std::fmt;

/// What the server said no with: `LOADING Valkey is loading the dataset in memory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub kind: RefusalKind,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    Loading,
    Busy,
    PrimaryDown,
    PersistenceFailing,
    OutOfMemory,
    AuthenticationRequired,
    PermissionDenied,
    ClusterDown,
    TooManyClients,
    Other,
}

const TOO_MANY_CLIENTS: &str = "ERR max number of clients";

impl Refusal {
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind: kind_of(&message), message }
    }
}

fn kind_of(message: &str) -> RefusalKind {
    match message.split_whitespace().next().unwrap_or_default() {
        "LOADING" => RefusalKind::Loading,
        "BUSY" => RefusalKind::Busy,
        "MASTERDOWN" => RefusalKind::PrimaryDown,
        "MISCONF" => RefusalKind::PersistenceFailing,
        "OOM" => RefusalKind::OutOfMemory,
        "NOAUTH" | "WRONGPASS" | "DENIED" => RefusalKind::AuthenticationRequired,
        "NOPERM" => RefusalKind::PermissionDenied,
        "CLUSTERDOWN" => RefusalKind::ClusterDown,
        _ if message.starts_with(TOO_MANY_CLIENTS) => RefusalKind::TooManyClients,
        _ => RefusalKind::Other,
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_the_probes_care_about_is_told_apart() {
        let cases = [
            ("LOADING Valkey is loading the dataset in memory", RefusalKind::Loading),
            ("BUSY Valkey is busy running a script.", RefusalKind::Busy),
            (
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                RefusalKind::PrimaryDown,
            ),
            ("MISCONF Valkey is configured to save RDB snapshots", RefusalKind::PersistenceFailing),
            ("OOM command not allowed when used memory > 'maxmemory'.", RefusalKind::OutOfMemory),
            ("NOAUTH Authentication required.", RefusalKind::AuthenticationRequired),
            ("NOPERM User x has no permissions", RefusalKind::PermissionDenied),
            ("CLUSTERDOWN The cluster is down", RefusalKind::ClusterDown),
            ("ERR max number of clients reached", RefusalKind::TooManyClients),
            ("ERR unknown command", RefusalKind::Other),
            ("", RefusalKind::Other),
        ];
        for (message, kind) in cases {
            assert_eq!(Refusal::new(message).kind, kind, "{message}");
        }
    }
}
