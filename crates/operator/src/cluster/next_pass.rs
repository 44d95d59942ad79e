//! When to plan for a cluster again if nothing happens before.

use super::observe::Seen;
use crate::runtime::IN_TROUBLE;
use k8s_openapi::jiff::Timestamp;
use planner::{Certificates, Report, Sidecar};
use std::time::Duration;

/// While pods are on their way: why they do not come is told in no watch.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// For a sidecar that may be on its way.
const SIDECARS_AWAITED: Duration = Duration::from_secs(5);
/// A new leader has heard everybody a moment after the time it gives them.
const AFTER_RETURN: Duration = Duration::from_millis(200);

/// For certificates: after something went wrong, while an orchestration postpones a change, and until there is a root.
const SOON: Duration = Duration::from_secs(2);
const NOT_AT_ONCE: Duration = Duration::from_millis(500);

/// For the nodes, for the certificates, for what is on its way.
pub fn requeue_after(report: &Report, seen: &Seen, resync: Duration) -> Duration {
    let nodes = report.nodes.as_ref().and_then(|nodes| nodes.requeue_after).unwrap_or(Duration::MAX);
    if report.deleting {
        return nodes.min(resync);
    }
    by_report(report, seen, resync).min(certificates_due(report, seen)).min(nodes)
}

/// When the certificates are to be read or changed.
fn certificates_due(report: &Report, seen: &Seen) -> Duration {
    let until = |next: Timestamp| Duration::try_from(next.duration_since(Timestamp::now())).unwrap_or_default();
    match &seen.observation.certificates {
        Certificates::Elsewhere => Duration::MAX,
        Certificates::Unread | Certificates::Waiting(_) => SOON,
        Certificates::Read(read) if report.certificates.postponed || read.view.leaf.whole().is_none() => SOON,
        // A moment that has come is looked at soon, and not at once again and again.
        Certificates::Read(_) => {
            let due = report.certificates.next.map_or(Duration::MAX, |next| until(next).max(NOT_AT_ONCE));
            due.min(seen.certificates_quiet)
        }
    }
}

fn by_report(report: &Report, seen: &Seen, resync: Duration) -> Duration {
    if report.paused || report.is_settled() {
        // Spread, so that a thousand clusters are not planned for in the same second.
        let rest = resync.mul_f64(0.75 + fastrand::f64() * 0.5);
        rest.min(sidecars_due(report, seen).unwrap_or(rest))
    } else if report.troubles.is_empty() {
        UNDER_WAY
    } else {
        IN_TROUBLE
    }
}

/// When it will be known whether sidecars that are on their way came. Until then nothing tells that they did not.
fn sidecars_due(report: &Report, seen: &Seen) -> Option<Duration> {
    let awaited = report.sidecars.iter().any(Sidecar::is_awaited);
    let returning = seen.returning.map(|left| left + AFTER_RETURN);
    returning.or(awaited.then_some(SIDECARS_AWAITED))
}
