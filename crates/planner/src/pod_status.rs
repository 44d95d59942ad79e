//! What the status says of the single pods and their sidecars. Pure; a part of `status`.
//! A heartbeat alone changes nothing here: the time of the last one is written when something else is.

use crate::report::Report;
use crate::sidecars::{Contact, Sidecar};
use crate::status::{Found, whole_second};
use api::cluster::{LISTED_PODS, PodStatus, ValkeyClusterStatus};
use api::conditions::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeMap;

/// Pods named in a message.
const NAMED: usize = 10;
/// Reasons why tokens are refused; mostly all are refused for the same.
const REASONS: usize = 3;

type Previous<'a> = Option<&'a ValkeyClusterStatus>;

/// The status with its pods; where nothing but heartbeats came, exactly the previous one.
pub fn with_pods(mut status: ValkeyClusterStatus, report: &Report, previous: Previous<'_>) -> ValkeyClusterStatus {
    let fresh = listed(report.sidecars.iter().map(|sidecar| pod(sidecar, previous)).collect());
    status.pods = fresh.iter().map(|pod| aged(pod, previous)).collect();
    if previous != Some(&status) {
        status.pods = fresh;
    }
    status
}

/// Those without a connection first, and not more than fit.
fn listed(mut pods: Vec<PodStatus>) -> Vec<PodStatus> {
    pods.sort_by_key(|pod| pod.connected);
    pods.truncate(LISTED_PODS);
    pods
}

fn pod(sidecar: &Sidecar, previous: Previous<'_>) -> PodStatus {
    if sidecar.state == Contact::Unknown
        && let Some(before) = before(&sidecar.pod, previous)
    {
        return before.clone();
    }
    PodStatus {
        name: sidecar.pod.clone(),
        connected: sidecar.state == Contact::Connected,
        last_heartbeat: sidecar.last_heartbeat.map(|at| Time(whole_second(at))),
        sidecar_version: sidecar.version.clone(),
        certificate_expires: sidecar.certificate_expires.map(|at| Time(whole_second(at))),
    }
}

/// With the previous time of its last heartbeat, unless that is all there will be.
fn aged(pod: &PodStatus, previous: Previous<'_>) -> PodStatus {
    let before = before(&pod.name, previous).filter(|before| before.connected && pod.connected);
    let last_heartbeat = before.map_or_else(|| pod.last_heartbeat.clone(), |before| before.last_heartbeat.clone());
    PodStatus { last_heartbeat, ..pod.clone() }
}

fn before<'a>(name: &str, previous: Previous<'a>) -> Option<&'a PodStatus> {
    previous?.pods.iter().find(|pod| pod.name == name)
}

/// Whether the previous status, which stands while it is not known better, had this pod connected. Of a large cluster only the
/// pods without a connection are certain to be listed.
fn was_connected(name: &str, previous: Previous<'_>) -> bool {
    let full = previous.is_some_and(|status| status.pods.len() >= LISTED_PODS);
    before(name, previous).map_or(full, |before| before.connected)
}

fn is_connected(sidecar: &Sidecar, previous: Previous<'_>) -> bool {
    match sidecar.state {
        Contact::Connected => true,
        Contact::Unknown => was_connected(&sidecar.pod, previous),
        Contact::Awaited | Contact::Missing => false,
    }
}

pub fn connected(report: &Report, previous: Previous<'_>) -> usize {
    report.sidecars.iter().filter(|sidecar| is_connected(sidecar, previous)).count()
}

pub fn sidecars_connected(report: &Report, previous: Previous<'_>) -> Found {
    let asked = report.asked.as_ref().map_or(report.sidecars.len(), |asked| asked.pods as usize);
    let connected = connected(report, previous);
    let counted = format!("{connected} of {asked} sidecars are connected");
    let missing = || report.sidecars.iter().filter(|sidecar| sidecar.state == Contact::Missing);
    let names: Vec<&str> = missing().map(|sidecar| sidecar.pod.as_str()).collect();
    if !names.is_empty() {
        let message = format!("{counted}; not those of {}", api::text::listed(&names, NAMED));
        return match turned_away(missing()) {
            Some(why) => (false, Reason::SidecarTokensRefused, format!("{message}. {why}")),
            None => (false, Reason::SidecarsDisconnected, message),
        };
    }
    if connected < asked || asked == 0 {
        return (false, Reason::SidecarsConnecting, counted);
    }
    (true, Reason::AllSidecarsConnected, counted)
}

/// Whose tokens are refused and why, each reason once, and the way out.
fn turned_away<'a>(missing: impl Iterator<Item = &'a Sidecar>) -> Option<String> {
    let mut pods_by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for sidecar in missing {
        if let Some(why) = &sidecar.turned_away {
            pods_by_reason.entry(why).or_default().push(&sidecar.pod);
        }
    }
    let told = pods_by_reason.iter().take(REASONS);
    let told: Vec<_> = told.map(|(why, pods)| format!("{} ({why})", api::text::listed(pods, NAMED))).collect();
    let told = told.join("; ");
    (!told.is_empty()).then(|| {
        format!(
            "The API server or the operator refuses the tokens of {told}. If their ServiceAccount was made anew, wait for the \
             tokens that the kubelet brings within the hour, or replace these pods one at a time"
        )
    })
}
