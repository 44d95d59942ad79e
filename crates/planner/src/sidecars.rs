//! How the sidecars of a cluster are doing, from what the line knows of them. Pure; a part of `plan`.

use crate::observation::Observation;
use crate::pod_facts::PodFacts;
use crate::report::Trouble;
use api::conditions::Reason;
use api::names;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;

/// A sidecar of a pod younger than this is on its way.
const PATIENCE: i64 = 20;
/// A connection that breaks is mostly back within a second; it is not worth a word until it has been gone this long (seconds).
const BLINK: i64 = 5;
/// Refused settings that are told; all pods have the same settings and mostly refuse the same.
const MOST_LISTED: usize = 5;

/// What the line knows of one pod's sidecar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidecarState {
    pub pod_uid: String,
    pub connected: bool,
    /// When its last connection ended, while there is none.
    pub lost: Option<Timestamp>,
    pub last_heartbeat: Option<Timestamp>,
    pub version: String,
    pub certificate_expires: Option<Timestamp>,
    /// Settings it refused, in words.
    pub refused: Vec<String>,
    /// The modules of its Valkey with their versions, as far as that answers.
    pub modules: Option<BTreeMap<String, i64>>,
    /// It is new enough to tell modules, and so to have them loaded.
    pub knows_modules: bool,
    /// Parameters that it does not know, each with why it is not in effect; empty when it is.
    pub tried: BTreeMap<String, String>,
}

/// What the line knows of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineFacts {
    pub sidecars: Vec<SidecarState>,
    /// UIDs of pods whose tokens were refused, each with the reason.
    pub turned_away: BTreeMap<String, String>,
    /// The leader changed a moment ago: who was not heard of may be on the way back.
    pub returning: bool,
}

/// One existing pod's sidecar as it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    pub pod: String,
    pub state: Contact,
    pub last_heartbeat: Option<Timestamp>,
    pub version: Option<String>,
    pub certificate_expires: Option<Timestamp>,
    /// Why its token was refused; not of one that is connected.
    pub turned_away: Option<String>,
}

/// Whether a sidecar is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    Connected,
    /// Its pod is starting.
    Awaited,
    /// The leader changed or the connection broke a moment ago: what was true before stands until it is known better.
    Unknown,
    Missing,
}

impl Sidecar {
    /// Whether only time tells what has become of it.
    pub fn is_awaited(&self) -> bool {
        matches!(self.state, Contact::Awaited | Contact::Unknown)
    }
}

pub fn sidecars(observation: &Observation, count: u32, now: Timestamp) -> Vec<Sidecar> {
    let pod = |name: &String| observation.pods.iter().find(|pod| pod.name == *name && !pod.terminating);
    let names = (0..count).map(|ordinal| names::pod(&observation.cluster.name, ordinal));
    names.filter_map(|name| Some(sidecar(pod(&name)?, &observation.line, now))).collect()
}

fn sidecar(pod: &PodFacts, line: &LineFacts, now: Timestamp) -> Sidecar {
    let known = line.sidecars.iter().find(|sidecar| sidecar.pod_uid == pod.uid);
    let state = contact(pod, known, line.returning, now);
    Sidecar {
        pod: pod.name.clone(),
        state,
        turned_away: line.turned_away.get(&pod.uid).filter(|_| state != Contact::Connected).cloned(),
        last_heartbeat: known.and_then(|known| known.last_heartbeat),
        version: known.map(|known| known.version.clone()).filter(|version| !version.is_empty()),
        certificate_expires: known.and_then(|known| known.certificate_expires),
    }
}

fn contact(pod: &PodFacts, known: Option<&SidecarState>, returning: bool, now: Timestamp) -> Contact {
    match known {
        Some(known) if known.connected => Contact::Connected,
        None if returning => Contact::Unknown,
        Some(SidecarState { lost: Some(lost), .. }) if now.as_second() - lost.as_second() < BLINK => Contact::Unknown,
        _ if now.as_second() - pod.created < PATIENCE => Contact::Awaited,
        // Whoever was heard runs, whether or not its node could still tell.
        None if !pod.running => Contact::Awaited,
        _ => Contact::Missing,
    }
}

/// What sidecars refuse to apply, each thing once.
pub fn refused_settings(observation: &Observation) -> Option<Trouble> {
    let mut refused: Vec<&str> =
        observation.line.sidecars.iter().flat_map(|sidecar| &sidecar.refused).map(String::as_str).collect();
    refused.sort_unstable();
    refused.dedup();
    let more = refused.len().saturating_sub(MOST_LISTED);
    refused.truncate(MOST_LISTED);
    let tail = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!("settings were refused: {}{tail}", refused.join("; "));
    (!refused.is_empty()).then_some(Trouble { reason: Reason::SettingRefused, message })
}
