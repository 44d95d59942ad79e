//! The conditions that kstatus reads, Reconciling and Stalled: whether the cluster is as the spec says, and if not, whether it will be.
//! Pure; a part of `status`. At most one of them is True, since kstatus goes by the first that is.

use crate::report::Report;
use crate::status::Found;
use api::conditions::Reason;

/// What may be gone by itself: nodes come, volumes are provided, a pod starts again.
const MAY_PASS: [Reason; 4] =
    [Reason::ObservationFailed, Reason::PodUnschedulable, Reason::VolumePending, Reason::PrimaryDown];

/// Somebody has to do something first.
pub fn stalled(degraded: &Found) -> Found {
    let (is_degraded, reason, message) = degraded.clone();
    match is_degraded {
        true if MAY_PASS.contains(&reason) => {
            (false, reason, format!("it may pass without anybody's doing: {message}"))
        }
        true => (true, reason, message),
        false => (false, Reason::AsExpected, "nothing is in the way".to_owned()),
    }
}

/// The cluster is on its way to the spec, or is kept from it by choice. `Ready` can be True all the while: what is asked for is not yet
/// in effect, and what was asked for before serves.
pub fn reconciling(report: &Report, stalled: &Found, progressing: Found, ready: Found) -> Found {
    if stalled.0 {
        return (false, stalled.1, format!("it goes on when this is solved: {}", stalled.2));
    }
    if progressing.0 {
        return progressing;
    }
    match held_back(report) {
        Some(found) => found,
        None if !ready.0 => (true, ready.1, ready.2),
        None => (false, Reason::UpToDate, "the cluster is as the spec says".to_owned()),
    }
}

/// What somebody decides and the operator waits for. A window for maintenance or an approval belongs here, not into `ready`.
fn held_back(report: &Report) -> Option<Found> {
    if report.paused {
        return Some((true, Reason::Paused, "spec.paused is true: the operator only watches".to_owned()));
    }
    let fields: Vec<&str> = report.restart.keys().map(String::as_str).collect();
    let message = || format!("these take effect when the pods restart: {}", fields.join(", "));
    (!fields.is_empty()).then(|| (true, Reason::RestartPending, message()))
}
