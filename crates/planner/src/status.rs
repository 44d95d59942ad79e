//! The status a report becomes. Pure; the operator's publish step writes it when it differs from what is there.

use crate::convergence;
use crate::modules::LoadedModule;
use crate::node_status::{before, is_up, of_nodes, orchestrating, still_degraded, unheard, unsound, with_nodes};
use crate::observation::Identity;
use crate::parameters;
use crate::pod_status::{connected, sidecars_connected, with_pods};
use crate::report::{Asked, Report};
use crate::sidecar_updates;
use api::cluster::{ExporterStatus, LISTED_MODULES, ModuleStatus, Phase, StatefulSetReference, ValkeyClusterStatus};
use api::conditions::{ConditionType, Finding, LONGEST_TEXT, Reason, advance};
use api::names;
use api::text::shortened;
use k8s_openapi::jiff::Timestamp;

/// Pods that a message names.
const NAMED: usize = 5;

/// The API server keeps no fractions of a second: who reads a time back must come to the same one.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

pub fn status(
    report: &Report,
    cluster: &Identity,
    previous: Option<&ValkeyClusterStatus>,
    now: Timestamp,
) -> ValkeyClusterStatus {
    let before = previous.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut status = ValkeyClusterStatus {
        observed_generation: cluster.generation,
        phase: Some(phase(report, previous).to_string()),
        cluster_type: Some("cluster".to_owned()),
        selector: Some(names::primaries_selector_text(&cluster.name)),
        sidecar_update: report.sidecar_update.as_ref().map_or_else(
            || previous.and_then(|status| status.sidecar_update.clone()),
            |update| update.followed.clone(),
        ),
        stateful_set: report.has_stateful_set.then(|| StatefulSetReference { name: cluster.name.clone() }),
        conditions: advance(before, &findings(report, previous), cluster.generation, now),
        plan: plan_text(report, previous),
        ..previous.cloned().unwrap_or_default()
    };
    status.ready_replicas = count(report.ready_pods);
    match &report.asked {
        Some(asked) => fill(&mut status, asked),
        None => status.ready_pods = Some(format!("{}/{}", status.ready_replicas, status.replicas)),
    }
    if let Some(loaded) = &report.modules {
        status.modules = loaded.iter().take(LISTED_MODULES).map(module).collect();
    }
    status.sidecars = Some(format!("{}/{}", connected(report, previous), status.replicas));
    with_nodes(with_pods(status, report, previous), report)
}

fn fill(status: &mut ValkeyClusterStatus, asked: &Asked) {
    status.version = Some(asked.version.to_string());
    status.replicas_per_master = count(asked.replicas_per_master);
    status.replicas = count(asked.pods);
    status.ready_pods = Some(format!("{}/{}", status.ready_replicas, asked.pods));
    status.platform_ids = asked.platform_ids.then_some(true);
    status.exporter =
        Some(ExporterStatus { enabled: asked.exporter.is_some(), metrics_endpoint: asked.exporter.clone() });
}

fn module(loaded: &LoadedModule) -> ModuleStatus {
    let pods = i32::try_from(loaded.pods).unwrap_or(i32::MAX);
    ModuleStatus { name: loaded.name.clone(), version: loaded.version, pods }
}

fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// One of each condition type, in their order.
fn findings(report: &Report, previous: Option<&ValkeyClusterStatus>) -> Vec<Finding> {
    ConditionType::ALL.iter().map(|condition| finding(*condition, report, previous)).collect()
}

fn finding(condition: ConditionType, report: &Report, previous: Option<&ValkeyClusterStatus>) -> Finding {
    let (status, reason, message) = match condition {
        ConditionType::Ready => ready(report, previous),
        ConditionType::SlotsCovered | ConditionType::ReplicasInSync | ConditionType::Available => {
            return of_nodes(condition, report, previous);
        }
        ConditionType::ParametersInEffect => return parameters::in_effect(report),
        ConditionType::Progressing => progressing(report),
        ConditionType::Degraded => degraded(report, previous),
        ConditionType::RestartRequired => restart_required(report),
        ConditionType::Secured => secured(),
        ConditionType::SidecarsConnected => sidecars_connected(report, previous),
        ConditionType::Reconciling => reconciling(report, previous),
        ConditionType::SidecarsUpToDate => return sidecars_up_to_date(report, previous),
        ConditionType::Stalled => convergence::stalled(&degraded(report, previous)),
    };
    Finding { condition, status: Some(status), reason, message }
}

pub(crate) type Found = (bool, Reason, String);

fn ready(report: &Report, previous: Option<&ValkeyClusterStatus>) -> Found {
    let asked = report.asked.as_ref().map_or(0, |asked| asked.pods);
    let counted = format!("{} of {asked} pods are ready", report.ready_pods);
    match report.troubles.first() {
        _ if is_up(report, previous) => (true, Reason::AllPodsReady, counted),
        Some(trouble) => (false, trouble.reason, trouble.message.clone()),
        None if !report.pending.is_empty() => (false, Reason::ApplyingChanges, pending_text(report)),
        None if !report.all_pods_ready() => (false, pods_reason(report), format!("{counted}{}", awaited(report))),
        None => unsound(report).unwrap_or((false, Reason::PodsNotReady, counted)),
    }
}

fn pods_reason(report: &Report) -> Reason {
    if report.missing_pods.is_empty() { Reason::PodsNotReady } else { Reason::PodsStarting }
}

/// Which pods are not ready, as far as that is of help: of none that is, nobody needs a list.
fn awaited(report: &Report) -> String {
    let some = report.ready_pods > 0 && !report.unready_pods.is_empty();
    if some { format!("; not yet: {}", api::text::listed(&report.unready_pods, NAMED)) } else { String::new() }
}

fn progressing(report: &Report) -> Found {
    if report.paused {
        return (false, Reason::Paused, "spec.paused is true: the operator only watches".to_owned());
    }
    if !report.pending.is_empty() {
        return (true, Reason::ApplyingChanges, pending_text(report));
    }
    if !report.waiting.is_empty() {
        return (true, Reason::ApplyingChanges, report.waiting.join("; "));
    }
    if let Some(found) = orchestrating(report) {
        return found;
    }
    match &report.asked {
        Some(asked) if !report.all_pods_ready() => (
            true,
            pods_reason(report),
            format!("waiting for {} of {} pods{}", asked.pods - report.ready_pods, asked.pods, awaited(report)),
        ),
        _ => (false, Reason::UpToDate, "there is nothing to change".to_owned()),
    }
}

fn degraded(report: &Report, previous: Option<&ValkeyClusterStatus>) -> Found {
    if let Some(before) = still_degraded(report, previous) {
        return before;
    }
    let Some(first) = report.troubles.first() else {
        return (false, Reason::AsExpected, "nothing is wrong".to_owned());
    };
    let all = report.troubles.iter().map(|trouble| trouble.message.as_str()).collect::<Vec<_>>().join("; ");
    (true, first.reason, all)
}

fn restart_required(report: &Report) -> Found {
    if report.restart.is_empty() {
        return (false, Reason::NothingPending, "no setting waits for a restart".to_owned());
    }
    let fields = report.restart.keys().cloned().collect::<Vec<_>>().join(", ");
    (true, Reason::RestartPending, format!("these take effect when the pods restart: {fields}"))
}

fn reconciling(report: &Report, previous: Option<&ValkeyClusterStatus>) -> Found {
    let stalled = convergence::stalled(&degraded(report, previous));
    convergence::reconciling(report, &stalled, progressing(report), ready(report, previous))
}

/// What was known before stands while the spec cannot be read.
fn sidecars_up_to_date(report: &Report, previous: Option<&ValkeyClusterStatus>) -> Finding {
    let condition = ConditionType::SidecarsUpToDate;
    let before = previous.and_then(|status| before(status, condition));
    match sidecar_updates::up_to_date(report) {
        Some((status, reason, message)) => Finding { condition, status: Some(status), reason, message },
        None => before.unwrap_or_else(|| unheard(condition)),
    }
}

fn secured() -> Found {
    let message = "neither TLS nor users are configured: everybody who reaches the port may do everything";
    (false, Reason::Unprotected, message.to_owned())
}

fn phase(report: &Report, previous: Option<&ValkeyClusterStatus>) -> Phase {
    let before = previous.and_then(|status| status.phase.as_deref());
    let was_running = before.is_some_and(|phase| phase != Phase::Pending.as_str());
    if is_up(report, previous) {
        Phase::Running
    } else if degraded(report, previous).0 {
        Phase::Failed
    } else if was_running {
        Phase::Updating
    } else {
        Phase::Pending
    }
}

fn plan_text(report: &Report, previous: Option<&ValkeyClusterStatus>) -> Option<String> {
    let lead = if report.paused { "paused; when resumed: " } else { "" };
    let mut parts = vec![pending_text(report)];
    parts.extend(report.waiting.iter().cloned());
    parts.extend(report.nodes.iter().flat_map(|nodes| nodes.plan.iter().cloned()));
    if let Some(asked) = report.asked.as_ref().filter(|_| !report.all_pods_ready()) {
        parts.push(format!("wait until all {} pods are ready{}", asked.pods, awaited(report)));
    }
    parts.retain(|part| !part.is_empty());
    let (is_ready, _, missing) = ready(report, previous);
    if parts.is_empty() && !is_ready && !report.deleting {
        parts.push(format!("wait: {missing}"));
    }
    (!parts.is_empty()).then(|| shortened(&format!("{lead}{}", parts.join("; ")), LONGEST_TEXT).into_owned())
}

fn pending_text(report: &Report) -> String {
    report.pending.join("; ")
}

#[cfg(test)]
#[path = "status_size_tests.rs"]
mod size_tests;
