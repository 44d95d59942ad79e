//! The decision: what to do about one cluster, and what to say about it. Pure, total, never waits.

use crate::observation::Observation;
use crate::report::{Asked, Report};
use crate::step::Step;
use crate::wanted::{Wanted, wanted};
use crate::{children, nodes, pods, sidecars, storage, troubles};
use api::cluster::ValkeyCluster;
use api::conditions::Reason;
use api::names::{self, port};
use api::quantity::Quantity;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::jiff::Timestamp;
use manifests::{Live, OperatorSettings, Problem, ValidatedCluster};
use orchestration::{FindingKind, PodCommand};
use serde::Deserialize;

/// Steps to take now, in this order, what to tell the nodes, and the findings they follow from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub commands: Vec<PodCommand>,
    pub report: Report,
}

/// Reads the spec once; what is live decides what of it may change now.
pub fn validate(
    cluster: &ValkeyCluster,
    settings: &OperatorSettings,
    observation: &Observation,
) -> Result<ValidatedCluster, Vec<Problem>> {
    let stateful_set = observation.stateful_set().and_then(|object| StatefulSet::deserialize(object).ok());
    let live = stateful_set.map(|object| {
        let live = Live::of(&object);
        let storage_size = live.storage_size.clone().filter(|size| !may_follow(size, cluster, observation));
        Live { storage_size, ..live }
    });
    ValidatedCluster::parse(cluster, settings, live.as_ref())
}

/// The template's size follows the spec's upwards, once the claims have.
fn may_follow(live_size: &str, cluster: &ValkeyCluster, observation: &Observation) -> bool {
    let asked = cluster.spec.pvc.as_ref().and_then(|pvc| Quantity::parse(&pvc.storage_size).ok());
    let grows = |asked: Quantity| Quantity::parse(live_size).is_ok_and(|size| size < asked);
    asked.is_some_and(|asked| grows(asked) && storage::all_grown(asked, &observation.pods, &observation.claims))
}

pub fn plan(validated: Result<&ValidatedCluster, &[Problem]>, observation: &Observation, now: Timestamp) -> Plan {
    let mut report = Report { deleting: observation.cluster.deleting, ..Report::default() };
    report.has_stateful_set = observation.stateful_set().is_some();
    match validated {
        Err(problems) => invalid(problems, observation, report, now),
        Ok(cluster) => valid(cluster, observation, report, now),
    }
}

/// Nothing is touched on account of a spec that cannot be read; the pods are still reported on.
fn invalid(problems: &[Problem], observation: &Observation, mut report: Report, now: Timestamp) -> Plan {
    let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    report.trouble(Reason::InvalidSpec, text);
    let count = observation.stateful_set().map(pods::asked_for).unwrap_or_default();
    report.ready_pods = pods::ready(observation, count);
    report.sidecars = sidecars::sidecars(observation, count, now);
    report.troubles.extend(troubles::troubles(observation, &[], now));
    Plan { report, ..Plan::default() }
}

fn valid(cluster: &ValidatedCluster, observation: &Observation, mut report: Report, now: Timestamp) -> Plan {
    let wanted = wanted(cluster);
    report.paused = cluster.spec.paused;
    let commands = describe_nodes(cluster, observation, &mut report, now);
    let steps = steps(cluster, &wanted, observation, &mut report);
    describe_pods(cluster, &wanted, observation, &mut report, now);
    report.pending = steps.iter().map(ToString::to_string).collect();
    Plan { steps: if report.paused { Vec::new() } else { steps }, commands, report }
}

/// A cluster that is being deleted is told nothing more.
fn describe_nodes(
    cluster: &ValidatedCluster,
    observation: &Observation,
    report: &mut Report,
    now: Timestamp,
) -> Vec<PodCommand> {
    let decided = nodes::decide(cluster, observation, now).filter(|_| !observation.cluster.deleting);
    let Some((mut commands, mut decision)) = decided else { return Vec::new() };
    if let Some(seen) = observation.nodes.as_ref().filter(|_| cluster.spec.paused) {
        nodes::only_watch(&mut decision, &mut commands, seen);
    }
    let wrong =
        |finding: &&orchestration::Finding| finding.kind == FindingKind::Degraded && finding.status == Some(true);
    for finding in decision.findings.iter().filter(wrong) {
        report.trouble(nodes::reason(finding.reason), finding.message.clone());
    }
    report.nodes_returning = nodes::are_returning(observation);
    report.nodes = Some(decision);
    commands
}

fn steps(cluster: &ValidatedCluster, wanted: &Wanted, observation: &Observation, report: &mut Report) -> Vec<Step> {
    if observation.cluster.deleting {
        return Vec::new();
    }
    let mut steps = children::steps(wanted, observation, report);
    steps.extend(storage::steps(cluster, observation, report));
    steps.extend(pods::steps(cluster, wanted, observation, report));
    steps
}

fn describe_pods(
    cluster: &ValidatedCluster,
    wanted: &Wanted,
    observation: &Observation,
    report: &mut Report,
    now: Timestamp,
) {
    let count = cluster.pod_count();
    report.asked = Some(asked(cluster));
    report.ready_pods = pods::ready(observation, count);
    report.missing_pods = pods::missing(observation, count);
    report.sidecars = sidecars::sidecars(observation, count, now);
    report.restart = pods::restart_needs(wanted, observation);
    let found = troubles::troubles(observation, &report.missing_pods, now);
    report.troubles.extend(found);
    report.troubles.extend(sidecars::refused_settings(observation));
    if report.has_stateful_set && !observation.stateful_set_is_noticed() {
        report
            .waiting
            .push(format!("the StatefulSet controller has not yet seen the latest StatefulSet {}", cluster.name));
    }
}

fn asked(cluster: &ValidatedCluster) -> Asked {
    let headless = names::headless_service(&cluster.name);
    let endpoint = format!("http://{headless}.{}.svc:{}/metrics", cluster.namespace, port::EXPORTER);
    Asked {
        version: cluster.version,
        master_count: cluster.master_count,
        replicas_per_master: cluster.replicas_per_master,
        pods: cluster.pod_count(),
        exporter: cluster.exporter.as_ref().map(|_| endpoint),
    }
}
