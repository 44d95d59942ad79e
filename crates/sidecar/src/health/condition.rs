//! From what was observed to what it means, and whether each probe passes. Pure.

use super::{
    disk::Disk,
    observation::{Answer, Observation},
};
use valkey::{ClusterInfo, Info, Refusal, RefusalKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ready,
    Starting,
    WaitingAtGate,
    Dead,
    Hung,
    Unreachable,
    Loading,
    BusyScript,
    ReplicaNotInSync,
    DiskFull,
    PersistenceFailing,
    OutOfMemory,
    TooManyClients,
    ClusterDown,
    AuthenticationRequired,
    ApplyingSettings,
    WritesWithheld,
    Refusing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: Kind,
    pub detail: String,
}

/// What the sidecar knows besides the observation.
pub struct Context<'a> {
    pub seen_valkey: bool,
    pub settled_run: Option<&'a str>,
    /// Why it takes no writes yet.
    pub withheld: Option<&'a str>,
    /// It answers reads also while its cluster is down: the user wants it so.
    pub reads_when_down: bool,
    pub apply_problem: Option<&'a str>,
    /// Why Valkey is held back from starting.
    pub held_back: Option<&'a str>,
}

/// Below this a volume is full whatever the dataset's size.
const LEAST_ROOM: u64 = 16 * 1024 * 1024;

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ready => "ready",
            Kind::Starting => "starting",
            Kind::WaitingAtGate => "waiting-at-gate",
            Kind::Dead => "dead",
            Kind::Hung => "hung",
            Kind::Unreachable => "unreachable",
            Kind::Loading => "loading",
            Kind::BusyScript => "busy-script",
            Kind::ReplicaNotInSync => "replica-not-in-sync",
            Kind::DiskFull => "disk-full",
            Kind::PersistenceFailing => "persistence-failing",
            Kind::OutOfMemory => "out-of-memory",
            Kind::TooManyClients => "too-many-clients",
            Kind::ClusterDown => "cluster-down",
            Kind::AuthenticationRequired => "authentication-required",
            Kind::ApplyingSettings => "applying-settings",
            Kind::WritesWithheld => "writes-withheld",
            Kind::Refusing => "refusing",
        }
    }

    /// Any answer at all is life: a server that loads for an hour must not be killed for it.
    pub fn is_alive(self) -> bool {
        !matches!(self, Kind::Starting | Kind::WaitingAtGate | Kind::Dead | Kind::Hung | Kind::Unreachable)
    }

    /// One that is held back for its data's sake must not be killed for it either.
    pub fn is_to_be_left_alone(self) -> bool {
        self.is_alive() || self == Kind::WaitingAtGate
    }

    /// A server out of memory stays reachable: clients can only free memory through it.
    pub fn is_ready(self) -> bool {
        matches!(self, Kind::Ready | Kind::OutOfMemory)
    }
}

impl Condition {
    fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    pub fn of(observation: &Observation, context: &Context<'_>) -> Self {
        match &observation.answer {
            Answer::Pong => serving(observation, context),
            Answer::Refused(refusal) => refused(refusal, observation),
            Answer::NobodyListens if context.held_back.is_some() => {
                Self::new(Kind::WaitingAtGate, context.held_back.unwrap_or_default())
            }
            Answer::NobodyListens if context.seen_valkey => {
                Self::new(Kind::Dead, "nobody listens on the Unix socket any more")
            }
            Answer::NobodyListens => Self::new(Kind::Starting, "nobody listens on the Unix socket yet"),
            Answer::Silence(deadline) => {
                Self::new(Kind::Hung, format!("the connection was taken, no answer came within {deadline:?}"))
            }
            Answer::Broken(reason) => Self::new(Kind::Unreachable, reason.clone()),
        }
    }
}

fn refused(refusal: &Refusal, observation: &Observation) -> Condition {
    let kind = match refusal.kind {
        RefusalKind::Loading => return Condition::new(Kind::Loading, loading(observation.info.as_ref())),
        RefusalKind::PrimaryDown => return Condition::new(Kind::ReplicaNotInSync, link(observation.info.as_ref())),
        RefusalKind::PersistenceFailing => return persistence(refusal, observation),
        RefusalKind::Busy => Kind::BusyScript,
        RefusalKind::OutOfMemory => Kind::OutOfMemory,
        RefusalKind::TooManyClients => Kind::TooManyClients,
        RefusalKind::ClusterDown => Kind::ClusterDown,
        RefusalKind::AuthenticationRequired | RefusalKind::PermissionDenied => Kind::AuthenticationRequired,
        RefusalKind::Other => Kind::Refusing,
    };
    Condition::new(kind, refusal.message.clone())
}

fn serving(observation: &Observation, context: &Context<'_>) -> Condition {
    let Some(info) = &observation.info else {
        return Condition::new(Kind::Unreachable, "the server answers PING and not INFO");
    };
    if let Some(reason) = context.withheld {
        return Condition::new(Kind::WritesWithheld, reason);
    }
    let run = info.text("run_id");
    if run.is_none() || run != context.settled_run {
        return Condition::new(Kind::ApplyingSettings, context.apply_problem.unwrap_or("settings are being applied"));
    }
    if info.is_replica() && info.text("master_link_status") != Some("up") {
        return Condition::new(Kind::ReplicaNotInSync, link(Some(info)));
    }
    if let Some(cluster) = observation.cluster.as_ref().filter(|cluster| !cluster.state_ok) {
        return down(cluster, context);
    }
    match memory_is_full(info) {
        Some(detail) => Condition::new(Kind::OutOfMemory, detail),
        None => Condition::new(Kind::Ready, if info.is_replica() { "replica" } else { "primary" }),
    }
}

/// A node that answers reads has to be found by those who read.
fn down(cluster: &ClusterInfo, context: &Context<'_>) -> Condition {
    if cluster.is_alone() {
        return Condition::new(Kind::ClusterDown, "it knows no other node: no cluster has taken it in yet");
    }
    let seen = format!("{} of 16384 slots are served, {} nodes are known", cluster.slots_ok, cluster.known_nodes);
    match context.reads_when_down {
        true => Condition::new(Kind::Ready, format!("for reads alone: {seen}")),
        false => Condition::new(Kind::ClusterDown, seen),
    }
}

fn loading(info: Option<&Info>) -> String {
    let field = |name| info.and_then(|info| info.text(name)).unwrap_or("?");
    format!("{} % loaded, about {} s left", field("loading_loaded_perc"), field("loading_eta_seconds"))
}

fn link(info: Option<&Info>) -> String {
    let field = |name| info.and_then(|info| info.text(name)).unwrap_or("?");
    let primary = format!("{}:{}", field("master_host"), field("master_port"));
    match info.filter(|info| info.flag("master_sync_in_progress")) {
        Some(_) => format!("copying from {primary}, {} bytes left", field("master_sync_left_bytes")),
        None => format!("the link to {primary} is down for {} s", field("master_link_down_since_seconds")),
    }
}

/// Valkey removes the half-written snapshot again, so a full volume may show some room: less than a snapshot needs.
fn persistence(refusal: &Refusal, observation: &Observation) -> Condition {
    let dataset = observation.info.as_ref().and_then(|info| info.number("used_memory")).unwrap_or_default();
    let full = |disk: &Disk| disk.available < dataset.max(LEAST_ROOM) || refusal.message.contains("No space left");
    match observation.disk.filter(full) {
        Some(disk) => Condition::new(
            Kind::DiskFull,
            format!(
                "{} of {} bytes are free on the data volume, the dataset has {dataset}",
                disk.available, disk.total
            ),
        ),
        None => Condition::new(Kind::PersistenceFailing, refusal.message.clone()),
    }
}

fn memory_is_full(info: &Info) -> Option<String> {
    let maximum = info.number("maxmemory").filter(|maximum| *maximum > 0)?;
    let used = info.number("used_memory")?.saturating_sub(info.number("mem_not_counted_for_evict").unwrap_or_default());
    let refuses = info.text("maxmemory_policy") == Some("noeviction") && used > maximum && !info.is_replica();
    refuses
        .then(|| format!("{used} bytes used, maxmemory is {maximum} and the policy evicts nothing: writes are refused"))
}

#[cfg(test)]
#[path = "condition_tests.rs"]
mod tests;
